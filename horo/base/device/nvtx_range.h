#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace horo::device {

/// Begins a stretch of this process's time, in the domain "horo", for a profiler that reads NVTX
/// (Nsight Systems). `number` is shown beside the name, of which the first 63 bytes are. Returns
/// what end_nvtx_range() takes, on any thread; 0 where nobody looks: no profiler, or no CUDA. Costs
/// a branch then. Thread-safe.
std::uint64_t begin_nvtx_range(std::string_view name, std::uint64_t number = 0) noexcept;
/// 0 is nothing.
void end_nvtx_range(std::uint64_t range) noexcept;

/// Such a stretch, which ends with this. Move-only.
class NvtxRange {
 public:
  explicit NvtxRange(std::string_view name, std::uint64_t number = 0) noexcept
      : range_(begin_nvtx_range(name, number)) {}
  NvtxRange(NvtxRange&& other) noexcept : range_(std::exchange(other.range_, 0)) {}
  NvtxRange& operator=(NvtxRange&& other) noexcept {
    std::swap(range_, other.range_);
    return *this;
  }
  ~NvtxRange() { end_nvtx_range(range_); }

 private:
  std::uint64_t range_;
};

}  // namespace horo::device

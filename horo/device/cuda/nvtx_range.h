#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace horo::device {

/// Begins a range in the domain "horo" for a profiler that reads NVTX (Nsight Systems). The
/// profiler shows `number` and the first 63 bytes of `name`. Returns the argument for
/// end_nvtx_range(), which any thread may call. Returns 0 without a profiler or without CUDA; the
/// cost is then one branch. Thread-safe.
std::uint64_t begin_nvtx_range(std::string_view name, std::uint64_t number = 0) noexcept;
/// Does nothing for 0.
void end_nvtx_range(std::uint64_t range) noexcept;

/// A range that ends when this object is destroyed. Move-only.
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

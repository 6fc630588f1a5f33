#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace horo::device {

/// Device memory or pinned host memory, freed by the destructor. Work that uses the memory must
/// have completed before, unless the memory is from a CachingAllocator. Move-only.
class Memory {
 public:
  Memory() = default;
  /// Takes ownership of `bytes` bytes at `data`. `free` must not throw.
  Memory(void* data, std::size_t bytes, std::function<void(void*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}

  /// The address of the first byte; null if the object owns no memory.
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  std::size_t size() const { return bytes_; }  ///< bytes

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

}  // namespace horo::device

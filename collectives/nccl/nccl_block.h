#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horo/device/memory.h"

namespace horo::collectives {

class NcclBuffers;

/// Device memory from ncclMemAlloc(). Freed by the destructor, which may run during a capture.
/// Thread-safe.
class NcclBlock : public std::enable_shared_from_this<NcclBlock> {
 public:
  /// Allocates memory of the current device. On failure, returns null and sets `obstacle` to the
  /// reason.
  static std::shared_ptr<NcclBlock> allocate(std::size_t bytes, std::string& obstacle);
  /// Returns the block that contains [data, data + bytes) and is in use as the result of own().
  /// Returns null if there is none.
  static std::shared_ptr<NcclBlock> find(const void* data, std::size_t bytes);
  ~NcclBlock();
  NcclBlock(const NcclBlock&) = delete;
  NcclBlock& operator=(const NcclBlock&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Returns the memory of the block as a device::Memory, at most once. When that is freed, the
  /// block is deregistered from all communicators, and find() no longer returns it. If NCCL refuses
  /// to deregister the block, the communicator keeps the block.
  device::Memory own();
  /// Adds a list of registered buffers that contains this block.
  void add_list(std::weak_ptr<NcclBuffers> list);

 private:
  NcclBlock(void* data, std::size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  void deregister() noexcept;

  std::byte* const data_;
  const std::size_t bytes_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<NcclBuffers>> lists_;  // guarded by mutex_
};

}  // namespace horo::collectives

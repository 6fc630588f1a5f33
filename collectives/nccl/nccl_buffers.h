#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horo/device/memory.h"

namespace horo::collectives {

/// The buffers that are registered with an NCCL communicator. NCCL can let the GPUs of other ranks
/// access registered buffers directly, without staging copies. The memory of a buffer is released
/// when its owner has freed it and it is no longer registered. A registration ends with remove() or
/// with the communicator. Thread-safe.
class NcclBuffers : public std::enable_shared_from_this<NcclBuffers> {
 public:
  explicit NcclBuffers(ncclComm_t communicator) : communicator_(communicator) {}

  /// Allocates memory of the current device with ncclMemAlloc(). On failure, returns null and sets
  /// `obstacle` to the reason.
  static std::shared_ptr<void> allocate(std::size_t bytes, std::string& obstacle);
  /// Registers a buffer that allocate() has returned. On failure, returns false and sets `obstacle`
  /// to the reason.
  bool add(const std::shared_ptr<void>& memory, std::size_t bytes, std::string& obstacle);
  /// Deregisters a buffer. Does nothing if the buffer is not registered. If NCCL refuses, the
  /// buffer stays registered. The caller must ensure that no collective still uses the buffer.
  void remove(const void* memory) noexcept;
  /// Wraps `memory` in a device::Memory that deregisters the buffer when it is freed.
  device::Memory own(std::shared_ptr<void> memory, std::size_t bytes);
  /// Returns the registered buffers. The caller must call this function before it ends the
  /// communicator, and must keep the buffers until the communicator has ended. Later calls of add()
  /// fail, and later calls of remove() do nothing.
  std::vector<std::shared_ptr<void>> release() noexcept;

 private:
  struct Registration {
    std::shared_ptr<void> memory;
    void* handle;  // registration handle of NCCL
  };
  std::mutex mutex_;         // guards the two members below
  ncclComm_t communicator_;  // null after release()
  std::vector<Registration> registrations_;
};

}  // namespace horo::collectives

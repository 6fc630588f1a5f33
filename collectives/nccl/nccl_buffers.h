#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horo/base/device/memory.h"

namespace horo::collectives {

/// A communicator of NCCL's with the buffers that it knows: NCCL reads and writes registered ones
/// from the other GPUs, without copies of its own. A buffer lives until its owner has freed it and
/// the communicator has forgotten it or come to its end, whichever is later, so neither outlives
/// what it needs. Thread-safe.
class NcclBuffers : public std::enable_shared_from_this<NcclBuffers> {
 public:
  explicit NcclBuffers(ncclComm_t communicator) : communicator_(communicator) {}

  /// Memory of the current device, from ncclMemAlloc(); empty, with the reason in `obstacle`, where
  /// NCCL has none to give.
  static std::shared_ptr<void> allocate(std::size_t bytes, std::string& obstacle);
  /// Makes a buffer known. Returns false, with the reason, if NCCL does not take it.
  bool add(const std::shared_ptr<void>& memory, std::size_t bytes, std::string& obstacle);
  /// Makes it forgotten; does nothing to one that is not known. No collective uses it any more.
  void remove(const void* memory) noexcept;
  /// `memory`, which is removed when its owner frees it.
  device::Memory own(std::shared_ptr<void> memory, std::size_t bytes);
  /// The communicator is about to end, with what it knows: to be kept until it has.
  std::vector<std::shared_ptr<void>> release() noexcept;

 private:
  struct Known {
    std::shared_ptr<void> memory;
    void* handle;  // NCCL's
  };
  std::mutex mutex_;
  ncclComm_t communicator_;  // guarded by mutex_, as what follows; null: it ends
  std::vector<Known> known_;
};

}  // namespace horo::collectives

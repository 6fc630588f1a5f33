#include "collectives/nccl/nccl_buffers.h"

#include <algorithm>
#include <utility>

#include "collectives/nccl/nccl_library.h"
#include "horo/base/log.h"

namespace horo::collectives {

std::shared_ptr<void> NcclBuffers::allocate(std::size_t bytes, std::string& obstacle) {
  const NcclLibrary& library = nccl();
  void* memory = nullptr;
  if (library.mem_alloc == nullptr || library.mem_free == nullptr) {
    obstacle = "this NCCL has no ncclMemAlloc";
    return nullptr;
  }
  const ncclResult_t result = library.mem_alloc(&memory, bytes);
  if (result != ncclSuccess || memory == nullptr) {
    obstacle = std::string("ncclMemAlloc failed: ") + library.get_error_string(result);
    return nullptr;
  }
  return {memory, [free = library.mem_free](void* data) { free(data); }};
}

bool NcclBuffers::add(const std::shared_ptr<void>& memory, std::size_t bytes,
                      std::string& obstacle) {
  const NcclLibrary& library = nccl();
  if (library.comm_register == nullptr || library.comm_deregister == nullptr) {
    obstacle = "this NCCL has no ncclCommRegister";
    return false;
  }
  const std::scoped_lock lock(mutex_);
  if (communicator_ == nullptr) {
    obstacle = "the communicator was aborted";
    return false;
  }
  void* handle = nullptr;
  const ncclResult_t result = library.comm_register(communicator_, memory.get(), bytes, &handle);
  // NCCL returns no handle if NCCL_LOCAL_REGISTER=0 disables registration.
  if (result != ncclSuccess || handle == nullptr) {
    obstacle = std::string("ncclCommRegister: ") + library.get_error_string(result);
    return false;
  }
  registrations_.push_back({memory, handle});
  return true;
}

void NcclBuffers::remove(const void* memory) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(
      registrations_, memory, [](const Registration& entry) { return entry.memory.get(); });
  if (communicator_ == nullptr || found == registrations_.end()) return;
  // On a failed communicator, ncclCommDeregister() may fail. The entry then keeps the memory alive
  // until the communicator ends.
  if (nccl().comm_deregister(communicator_, found->handle) == ncclSuccess)
    registrations_.erase(found);
  else
    log_debug("cannot deregister an NCCL buffer: it stays allocated until its communicator ends");
}

// The deleter holds a shared pointer to this object, so a buffer may be freed after the
// communicator has ended. In that case, remove() does nothing and the deleter only frees the
// memory.
device::Memory NcclBuffers::own(std::shared_ptr<void> memory, std::size_t bytes) {
  void* const data = memory.get();
  return {data, bytes, [self = shared_from_this(), kept = std::move(memory)](void* freed) mutable {
            self->remove(freed);
            kept.reset();
          }};
}

std::vector<std::shared_ptr<void>> NcclBuffers::release() noexcept {
  const std::scoped_lock lock(mutex_);
  communicator_ = nullptr;
  std::vector<std::shared_ptr<void>> memories;
  for (Registration& entry : std::exchange(registrations_, {}))
    memories.push_back(std::move(entry.memory));
  return memories;
}

}  // namespace horo::collectives

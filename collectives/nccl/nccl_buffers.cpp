#include "collectives/nccl/nccl_buffers.h"

#include <algorithm>
#include <utility>

#include "collectives/nccl/nccl_library.h"
#include "horo/base/text/log.h"
#include "horo/device/outside_of_captures.h"

namespace horo::collectives {

bool NcclBuffers::has_windows(std::string& obstacle) {
  const bool has =
      nccl().comm_window_register != nullptr && nccl().comm_window_deregister != nullptr;
  if (!has) obstacle = "this NCCL has no ncclCommWindowRegister";
  return has;
}

// NCCL may write to Registration::window after this call, so the registration is kept from here on,
// even if the communicator ends meanwhile.
ncclResult_t NcclBuffers::add_window(const std::shared_ptr<NcclBlock>& block) {
  const std::scoped_lock lock(mutex_);
  if (communicator_ == nullptr) return ncclInvalidUsage;
  auto registration = std::make_shared<Registration>();
  registration->block = block;
  keep(registration);
  return nccl().comm_window_register(communicator_, block->data(), block->bytes(),
                                     &registration->window, NCCL_WIN_COLL_SYMMETRIC);
}

bool NcclBuffers::settle_window(const NcclBlock& block, std::string& obstacle) {
  const std::scoped_lock lock(mutex_);
  const auto found = find(block.data());
  if (found == registrations_.end()) {
    obstacle = "the communicator was aborted";
    return false;
  }
  if ((*found)->window != nullptr) return true;
  obstacle = "ncclCommWindowRegister made no window";
  registrations_.erase(found);
  return false;
}

bool NcclBuffers::add(const std::shared_ptr<NcclBlock>& block, std::string& obstacle) {
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
  auto registration = std::make_shared<Registration>();
  registration->block = block;
  const ncclResult_t result =
      library.comm_register(communicator_, block->data(), block->bytes(), &registration->handle);
  // NCCL returns no handle if NCCL_LOCAL_REGISTER=0 disables registration.
  if (result != ncclSuccess || registration->handle == nullptr) {
    obstacle = std::string("ncclCommRegister: ") + library.get_error_string(result);
    return false;
  }
  keep(std::move(registration));
  return true;
}

bool NcclBuffers::contains(const void* data) const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(registrations_,
                             [&](const auto& entry) { return entry->block->data() == data; });
}

void NcclBuffers::remove(const void* data) noexcept {
  std::shared_ptr<Registration> removed;  // destroyed after the unlock, since it may free the block
  const std::scoped_lock lock(mutex_);
  const auto found = find(data);
  if (communicator_ == nullptr || found == registrations_.end()) return;
  const Registration& entry = **found;
  if (entry.window == nullptr && entry.handle == nullptr) return;  // not settled
  // On a failed communicator, NCCL may refuse. The entry then keeps the block alive until the
  // communicator ends.
  const device::OutsideOfCaptures allowed;
  const ncclResult_t result = entry.window != nullptr
                                  ? nccl().comm_window_deregister(communicator_, entry.window)
                                  : nccl().comm_deregister(communicator_, entry.handle);
  if (result != ncclSuccess)
    return log_debug(
        "cannot deregister an NCCL buffer: it stays allocated until its communicator ends");
  removed = std::move(*found);
  registrations_.erase(found);
}

std::vector<std::shared_ptr<void>> NcclBuffers::release() noexcept {
  const std::scoped_lock lock(mutex_);
  communicator_ = nullptr;
  const auto registrations = std::exchange(registrations_, {});
  return {registrations.begin(), registrations.end()};
}

std::vector<std::shared_ptr<NcclBuffers::Registration>>::iterator NcclBuffers::find(
    const void* data) {
  return std::ranges::find_if(registrations_,
                              [&](const auto& entry) { return entry->block->data() == data; });
}

void NcclBuffers::keep(std::shared_ptr<Registration> registration) {
  registration->block->add_list(weak_from_this());
  registrations_.push_back(std::move(registration));
}

}  // namespace horo::collectives

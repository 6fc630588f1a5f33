#include "horo/device_handle.h"

#include <utility>

#include "horo/coordinator/device_operation_queue.h"

namespace horo {

DeviceHandle::DeviceHandle(std::shared_ptr<coordinator::DeviceOperation> operation,
                           std::shared_ptr<coordinator::Completion> completion)
    : operation_(std::move(operation)), completion_(std::move(completion)) {}

void DeviceHandle::wait_on(void* stream) const {
  if (operation_ != nullptr) operation_->queue().wait_on(*operation_, *completion_, stream);
}

void DeviceHandle::wait() const {
  if (operation_ != nullptr) operation_->queue().wait(*operation_, *completion_);
}

void DeviceHandle::await_given() const {
  if (operation_ != nullptr) operation_->queue().await_launched(*operation_, *completion_);
}

bool DeviceHandle::is_done() const {
  return operation_ == nullptr || operation_->queue().is_done(*operation_, *completion_);
}

DeviceAlltoallHandle::DeviceAlltoallHandle(
    DeviceHandle handle, std::shared_ptr<const std::vector<std::size_t>> received_splits)
    : DeviceHandle(std::move(handle)), received_splits_(std::move(received_splits)) {}

std::vector<std::size_t> DeviceAlltoallHandle::received_splits() const {
  await_given();
  return *received_splits_;
}

}  // namespace horo

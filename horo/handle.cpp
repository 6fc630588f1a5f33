#include "horo/handle.h"

#include <utility>

#include "horo/alltoall_handle.h"
#include "horo/base/error.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/device_operation_queue.h"

namespace horo {

Handle::Handle(std::shared_ptr<coordinator::Completion> completion,
               std::shared_ptr<coordinator::DeviceOperation> on_device)
    : completion_(std::move(completion)), on_device_(std::move(on_device)) {}

bool Handle::is_done() const {
  if (on_device_ != nullptr) return on_device_->queue().is_done(*on_device_, *completion_);
  return completion_ == nullptr || completion_->is_done();
}

void Handle::wait() const {
  if (on_device_ != nullptr)
    on_device_->queue().wait(*on_device_, *completion_);
  else if (completion_ != nullptr)
    completion_->wait();
}

void Handle::wait_on(void* stream) const {
  if (completion_ == nullptr) return;
  HORO_CHECK(on_device_ != nullptr,
             "wait_on(): the tensors of the operation are in host memory; call wait()");
  on_device_->queue().wait_on(*on_device_, *completion_, stream);
}

void Handle::await_result_size() const {
  if (on_device_ != nullptr)
    on_device_->queue().await_launched(*on_device_, *completion_);
  else
    wait();
}

// run_callback() marks the thread, so blocking calls in the callback throw here as on a thread of
// horo.
void Handle::then(std::function<void(std::exception_ptr)> callback) const {
  HORO_CHECK(callback != nullptr, "then() needs a callback");
  if (on_device_ != nullptr)
    on_device_->queue().then(on_device_, *completion_, std::move(callback));
  else if (completion_ != nullptr)
    completion_->then(std::move(callback));
  else
    coordinator::run_callback(callback, nullptr);
}

AlltoallHandle::AlltoallHandle(Handle handle,
                               std::shared_ptr<const std::vector<std::size_t>> received_splits)
    : Handle(std::move(handle)), received_splits_(std::move(received_splits)) {}

std::vector<std::size_t> AlltoallHandle::received_splits() const {
  await_result_size();
  return *received_splits_;
}

}  // namespace horo

#include "horo/handle.h"

#include <utility>

#include "horo/alltoall_handle.h"
#include "horo/base/error.h"
#include "horo/coordinator/completion.h"

namespace horo {

Handle::Handle(std::shared_ptr<coordinator::Completion> completion)
    : completion_(std::move(completion)) {}

bool Handle::is_done() const { return completion_ == nullptr || completion_->is_done(); }

void Handle::wait() const {
  if (completion_ != nullptr) completion_->wait();
}

// run_callback() marks the thread, so blocking calls in the callback throw here as on a thread of
// horo.
void Handle::then(std::function<void(std::exception_ptr)> callback) const {
  HORO_CHECK(callback != nullptr, "then() needs a callback");
  if (completion_ != nullptr)
    completion_->then(std::move(callback));
  else
    coordinator::run_callback(callback, nullptr);
}

AlltoallHandle::AlltoallHandle(Handle handle,
                               std::shared_ptr<const std::vector<std::size_t>> received_splits)
    : Handle(std::move(handle)), received_splits_(std::move(received_splits)) {}

std::vector<std::size_t> AlltoallHandle::received_splits() const {
  wait();  // the splits are set before the operation completes
  return *received_splits_;
}

}  // namespace horo

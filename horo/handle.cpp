#include "horo/handle.h"

#include "horo/base/error.h"
#include "horo/coordinator/completion.h"

namespace horo {

Handle::Handle(std::shared_ptr<coordinator::Completion> completion)
    : completion_(std::move(completion)) {}

bool Handle::is_done() const { return completion_ == nullptr || completion_->is_done(); }

void Handle::wait() const {
  if (completion_ != nullptr) completion_->wait();
}

void Handle::then(std::function<void(std::exception_ptr)> callback) const {
  HORO_CHECK(callback != nullptr, "then() needs a callback");
  if (completion_ != nullptr)
    completion_->then(std::move(callback));
  else
    coordinator::run_callback(callback, nullptr);
}

}  // namespace horo

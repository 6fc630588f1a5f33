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

}  // namespace horo

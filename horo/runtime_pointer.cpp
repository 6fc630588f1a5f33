#include "horo/runtime_pointer.h"

#include "horo/base/error.h"
#include "horo/runtime/runtime.h"

namespace horo {

// All functions of Context and ProcessSet that use the runtime, except the destructors, reach it
// through get(). Therefore each of them makes this check for fork(), which is one relaxed load.
const std::shared_ptr<Runtime>& RuntimePointer::get() const {
  if (runtime_ == nullptr) {
    if (why_ != nullptr) std::rethrow_exception(why_);
    throw ShutdownError("this context has been moved from: use the one that it was moved to");
  }
  runtime_->home().require_home();
  return runtime_;
}

bool RuntimePointer::is_elsewhere() const noexcept {
  return runtime_ != nullptr && runtime_->home().is_elsewhere();
}

}  // namespace horo

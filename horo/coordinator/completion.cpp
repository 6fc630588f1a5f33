#include "horo/coordinator/completion.h"

#include <chrono>

#include "horo/base/futex.h"

namespace horo::coordinator {

void Completion::complete(std::exception_ptr error) {
  error_ = std::move(error);
  if (state_.exchange(kDone, std::memory_order_acq_rel) == kAwaited) futex_wake_all(state_);
}

void Completion::wait() {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  while (state != kDone) {
    home_.require_home();
    // Says that a wake-up is needed, then sleeps; both only while it is not done.
    if (state == kAwaited ||
        state_.compare_exchange_weak(state, kAwaited, std::memory_order_acq_rel)) {
      futex_wait(state_, kAwaited, std::chrono::seconds(1));
      state = state_.load(std::memory_order_acquire);
    }
  }
  if (error_) std::rethrow_exception(error_);
}

}  // namespace horo::coordinator

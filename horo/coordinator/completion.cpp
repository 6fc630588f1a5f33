#include "horo/coordinator/completion.h"

#include <chrono>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/system/futex.h"
#include "horo/base/thread_error.h"
#include "horo/metrics/rank_meter.h"

namespace horo::coordinator {
namespace {

// A counter, because callbacks can nest. A callback may call then() on a completed operation, and
// then() runs another callback.
thread_local int callbacks_on_this_thread = 0;

}  // namespace

// error_ is written before the release store of kDone, so a waiter that sees kDone also sees the
// error. The mutex orders complete() with then(). Therefore each callback is either returned here
// or run by then(), but not both.
std::vector<Completion::Callback> Completion::complete(std::exception_ptr error) {
  std::vector<Callback> callbacks;
  std::uint32_t before = 0;
  {
    const std::scoped_lock lock(mutex_);
    error_ = std::move(error);
    callbacks = std::exchange(callbacks_, {});
    before = state_.exchange(kDone, std::memory_order_acq_rel);
  }
  if (before == kAwaited) futex_wake_all(state_);
  return callbacks;
}

// Stores the text of the error for this thread. A Context that is destroyed while the exception
// unwinds the stack can then report the text.
void Completion::wait() {
  if (!is_done()) block();
  if (!error_) return;
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    record_thread_error(error.what());
    throw;
  }
}

// Has no timeout of its own, because the coordinator completes operations that time out.
void Completion::block() {
  forbid_blocking_in_callbacks();
  home_.require_home();
  const metrics::Blocked blocked(meter_.get());
  std::uint32_t state = state_.load(std::memory_order_acquire);
  while (state != kDone) {
    home_.require_home();
    // kAwaited makes complete() wake the futex. If the state becomes kDone before the sleep, the
    // compare-and-swap or the futex call fails, so no wake-up is lost.
    if (state == kAwaited ||
        state_.compare_exchange_weak(state, kAwaited, std::memory_order_acq_rel)) {
      futex_wait(state_, kAwaited, std::chrono::seconds(1));
      state = state_.load(std::memory_order_acquire);
    }
  }
}

// Runs the callback without the lock, because the callback may call then() on this object. Reads
// error_ without the lock, because error_ does not change once the operation is done.
void Completion::then(Callback callback) {
  {
    const std::scoped_lock lock(mutex_);
    if (!is_done()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  run_callback(std::move(callback), error_);
}

void run_callback(Completion::Callback callback, const std::exception_ptr& error) noexcept {
  ++callbacks_on_this_thread;
  try {
    callback(error);
  } catch (const std::exception& thrown) {
    log_error("a completion callback threw: {}", thrown.what());
  } catch (...) {
    log_error("a completion callback threw an exception that is not a std::exception");
  }
  // The callback may be the last owner of a Context, whose destructor must not block on this
  // thread. Therefore the callback is destroyed before the counter is decremented.
  callback = nullptr;
  --callbacks_on_this_thread;
}

bool is_in_callback() noexcept { return callbacks_on_this_thread > 0; }

void forbid_blocking_in_callbacks() {
  if (is_in_callback())
    throw InvalidArgument(
        "a completion callback must not wait for an operation, because the wait can deadlock; "
        "submit it with an ..._async() function and pass "
        "the work that follows to then() of the handle");
}

}  // namespace horo::coordinator

#include "horo/coordinator/completion.h"

#include <chrono>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/system/futex.h"
#include "horo/base/text/log.h"
#include "horo/base/thread_error.h"
#include "horo/metrics/rank_meter.h"

namespace horo::coordinator {
namespace {

// The number of callbacks that this thread is running. Callbacks can nest, because a callback may
// call then() on a completed operation, which runs another callback.
thread_local int callbacks_on_this_thread = 0;

}  // namespace

std::exception_ptr make_shutdown_error() {
  const KeepThreadError keep;
  return std::make_exception_ptr(ShutdownError(kEnded));
}

// Writes error_ before the exchange stores kDone with release order, so a thread that reads kDone
// also sees error_. The mutex orders complete() with then(). Therefore each callback is either
// returned here or run by then(), but not both.
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

// Stores the text of the error for this thread. If the exception unwinds the stack and destroys a
// Context, the Context can then report the text.
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

void Completion::block() {
  forbid_blocking_in_callbacks();
  home_.require_home();
  const metrics::Blocked blocked(meter_.get());
  std::uint32_t state = state_.load(std::memory_order_acquire);
  while (state != kDone) {
    home_.require_home();
    // kAwaited makes complete() wake the sleeping threads. If the state becomes kDone before the
    // sleep, the compare-and-swap fails or the futex call returns at once, so no wake-up is lost.
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
  // The callback may be the last owner of a Context. The destructor of a Context calls
  // is_in_callback() and does not block inside a callback. Therefore this function destroys the
  // callback before it decrements the counter.
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

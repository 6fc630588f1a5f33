#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "horo/base/system/home_process.h"

namespace horo::metrics {
class RankMeter;
}

namespace horo::coordinator {

/// The outcome of one submitted operation. complete() must be called at most once. Any thread may
/// wait.
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;

  /// Makes each wait() that blocks record its time in `meter`, if `meter` is not null. The caller
  /// must call measure() before the first wait().
  void measure(std::shared_ptr<metrics::RankMeter> meter) { meter_ = std::move(meter); }
  /// Sets the outcome. The caller must run the returned callbacks with error().
  std::vector<Callback> complete(std::exception_ptr error = nullptr);
  bool is_done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Requires is_done().
  const std::exception_ptr& error() const { return error_; }
  /// Blocks until complete() has been called, then throws the error of the operation if there is
  /// one. Has no timeout, because the coordinator completes operations that time out. Throws
  /// ShutdownError instead of blocking in a child process of fork(), where no thread calls
  /// complete(). Throws InvalidArgument instead of blocking inside a callback, because the wait
  /// could deadlock.
  void wait();
  /// If the operation has completed, runs `callback` at once on this thread. Otherwise complete()
  /// returns the callback to its caller, which must run it.
  void then(Callback callback);

 private:
  void block();

  static constexpr std::uint32_t kAwaited = 1;  // a thread waits on state_
  static constexpr std::uint32_t kDone = 2;
  std::atomic<std::uint32_t> state_{0};
  std::exception_ptr error_;  // written before state_ becomes kDone, constant afterwards
  HomeProcess home_;
  std::shared_ptr<metrics::RankMeter> meter_;
  std::mutex mutex_;  // guards callbacks_, and orders then() with complete()
  std::vector<Callback> callbacks_;
};

/// Runs a user's callback and destroys it. Logs an exception that the callback throws.
void run_callback(Completion::Callback callback, const std::exception_ptr& error) noexcept;
/// Returns whether this thread is inside run_callback().
bool is_in_callback() noexcept;
/// Throws InvalidArgument if is_in_callback().
void forbid_blocking_in_callbacks();

}  // namespace horo::coordinator

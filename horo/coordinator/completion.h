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

/// The text of the ShutdownError of operations that are submitted after the shutdown.
inline constexpr const char* kEnded = "horo has been shut down on this rank";
/// This error for operations that end with the shutdown. It does not become the latest error of the
/// calling thread, which may be closing a Context while another exception unwinds its stack.
std::exception_ptr make_shutdown_error();

/// The outcome of one submitted operation. complete() must be called at most once. Any thread may
/// call wait() and then().
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;

  /// Makes each wait() that blocks record its duration in `meter`. The caller must call measure()
  /// before the first wait().
  void measure(std::shared_ptr<metrics::RankMeter> meter) { meter_ = std::move(meter); }
  /// Sets the outcome to `error`, or to success if `error` is null. The caller must run the
  /// returned callbacks with error().
  std::vector<Callback> complete(std::exception_ptr error = nullptr);
  bool is_done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Returns the error of the operation, or null after success. Requires is_done().
  const std::exception_ptr& error() const { return error_; }
  /// Blocks until complete() has been called, then throws the error of the operation if there is
  /// one. Has no timeout, because the coordinator completes operations that time out. In two cases,
  /// wait() throws another error instead of blocking. In a child process of fork(), where no thread
  /// calls complete(), it throws ShutdownError. Inside a callback, where the wait could deadlock,
  /// it throws InvalidArgument.
  void wait();
  /// If is_done(), runs `callback` on this thread before then() returns. Otherwise complete() will
  /// return `callback`.
  void then(Callback callback);

 private:
  void block();

  static constexpr std::uint32_t kAwaited = 1;  // a thread may sleep on state_
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

#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "horo/base/home_process.h"

namespace horo::metrics {
class RankMeter;
}

namespace horo::coordinator {

/// The outcome of one submitted operation: set once by the coordinator, awaited by any thread.
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;

  /// Tells `meter` (null: nobody) of waits from now on. Before anyone waits.
  void measure(std::shared_ptr<metrics::RankMeter> meter) { meter_ = std::move(meter); }
  /// Returns the callbacks to be run now, with error().
  std::vector<Callback> complete(std::exception_ptr error = nullptr);
  bool is_done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Requires is_done().
  const std::exception_ptr& error() const { return error_; }
  /// Blocks until complete() has been called; rethrows its error. The coordinator bounds the time.
  /// Throws ShutdownError in a child process of fork(), where that never comes, and
  /// InvalidArgument inside a callback if it would block: it would wait for itself.
  void wait();
  /// `callback` is run after complete(), by whom complete() tells; if that has been, here and now.
  void then(Callback callback);

 private:
  void block();

  static constexpr std::uint32_t kAwaited = 1;  // a thread sleeps on state_
  static constexpr std::uint32_t kDone = 2;
  std::atomic<std::uint32_t> state_{0};
  std::exception_ptr error_;  // written before kDone
  HomeProcess home_;
  std::shared_ptr<metrics::RankMeter> meter_;
  std::mutex mutex_;  // guards callbacks_, and orders then() with complete()
  std::vector<Callback> callbacks_;
};

/// Runs a user's callback and destroys it; what it throws is logged.
void run_callback(Completion::Callback callback, const std::exception_ptr& error) noexcept;
/// Whether this thread is inside run_callback().
bool is_in_callback() noexcept;
/// Throws InvalidArgument where is_in_callback().
void forbid_blocking_in_callbacks();

}  // namespace horo::coordinator

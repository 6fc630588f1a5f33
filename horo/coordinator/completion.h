#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include "horo/base/error.h"

namespace horo::coordinator {

/// The outcome of one submitted operation: set once by the coordinator, awaited by any thread.
class Completion {
 public:
  void complete(std::exception_ptr error = nullptr);
  /// Notes that the operation has begun on this rank.
  void start() {
    started_.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                   std::memory_order_relaxed);
  }
  /// When, by the steady clock; its epoch if it has not.
  std::chrono::steady_clock::time_point started() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(started_.load(std::memory_order_relaxed)));
  }
  bool is_done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Blocks until complete() has been called; rethrows its error. The coordinator bounds the time.
  void wait();

 private:
  static constexpr std::uint32_t kAwaited = 1;  // a thread sleeps on state_
  static constexpr std::uint32_t kDone = 2;
  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::chrono::steady_clock::rep> started_{0};
  std::exception_ptr error_;  // written before kDone
};

}  // namespace horo::coordinator

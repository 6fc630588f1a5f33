#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

#include "horo/base/error.h"
#include "horo/base/home_process.h"

namespace horo::coordinator {

/// The outcome of one submitted operation: set once by the coordinator, awaited by any thread.
class Completion {
 public:
  void complete(std::exception_ptr error = nullptr);
  bool is_done() const { return state_.load(std::memory_order_acquire) == kDone; }
  /// Blocks until complete() has been called; rethrows its error. The coordinator bounds the time.
  /// Throws ShutdownError in a child process of fork(), where that never comes.
  void wait();

 private:
  static constexpr std::uint32_t kAwaited = 1;  // a thread sleeps on state_
  static constexpr std::uint32_t kDone = 2;
  std::atomic<std::uint32_t> state_{0};
  std::exception_ptr error_;  // written before kDone
  HomeProcess home_;
};

}  // namespace horo::coordinator

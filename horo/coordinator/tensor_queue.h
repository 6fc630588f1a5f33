#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "horo/coordinator/entry.h"

namespace horo::coordinator {

/// Where user threads hand operations to the coordinator thread. Thread-safe.
class TensorQueue {
 public:
  /// Adds an entry. Throws InvalidArgument if an operation of that name is still pending; after
  /// close(), the entry is completed with the closing error instead.
  void submit(Entry entry);
  /// Everything submitted since the last call, in order.
  std::vector<Entry> take();
  /// The name may be submitted again. Called before the entry's completion is set.
  void release(const std::string& name);
  /// Ends the intake: later submissions complete with `error`. Entries already queued can still be
  /// taken.
  void close(std::exception_ptr error);

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }
  /// Sleeps until something is submitted or wake() is called, at most `timeout`.
  void wait(std::chrono::nanoseconds timeout);
  void wake();

 private:
  std::mutex mutex_;  // guards the four below
  std::vector<Entry> entries_;
  std::unordered_set<std::string> pending_;
  std::exception_ptr closing_error_;
  bool is_woken_ = false;
  std::condition_variable changed_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace horo::coordinator

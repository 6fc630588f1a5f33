#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "horo/coordinator/entry.h"
#include "horo/observe/rank_snapshot.h"

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

  /// Adds what is pending, and how much has been, to the snapshot (see observe::RankActivity). By
  /// one thread at a time.
  void add_to(observe::RankSnapshot& snapshot);

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }
  /// Sleeps until something is submitted or wake() is called, at most `timeout`; not at all if that
  /// has happened since the last call. By one thread.
  void wait(std::chrono::nanoseconds timeout);
  void wake();

 private:
  struct Pending {
    Kind kind = Kind::kAllreduce;
    std::size_t bytes = 0;
    std::chrono::steady_clock::time_point submitted;
    std::shared_ptr<const Completion> completion;
  };
  void announce();

  std::mutex mutex_;  // guards the five below
  std::vector<Entry> entries_;
  std::unordered_map<std::string, Pending> pending_;
  std::uint64_t released_ = 0;
  std::string last_released_;
  std::exception_ptr closing_error_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint32_t> events_{0};  // submissions and wake-ups
  std::atomic<bool> is_asleep_{false};
  std::uint32_t seen_ = 0;           // of events_, by the thread that waits
  std::uint64_t told_released_ = 0;  // by add_to()
};

}  // namespace horo::coordinator

#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "horo/coordinator/doorbell.h"
#include "horo/coordinator/entry.h"

namespace horo::coordinator {

/// Where user threads hand operations to the coordinator thread. Thread-safe.
class TensorQueue {
 public:
  explicit TensorQueue(Doorbell& doorbell) : doorbell_(doorbell) {}

  /// Adds an entry, with the values that it is to begin with (Entry::initial), and rings the
  /// doorbell. Throws InvalidArgument, and adds nothing, if an
  /// operation or a group's tensor of one of its names is still pending, or if this rank has
  /// joined; after close(), the entry is completed with the closing error instead.
  void submit(Entry entry);
  /// The same without ringing, for a caller who does what the doorbell is for.
  void submit_quietly(Entry entry);
  /// Everything submitted since the last call, in order.
  std::vector<Entry> take();
  /// The names of the request may be submitted again. Called before the entry's completion is set.
  void release(const Request& request);
  /// Ends the intake: later submissions complete with `error`. Entries already queued can still be
  /// taken.
  void close(std::exception_ptr error);

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  void insert_names(const Request& request);

  Doorbell& doorbell_;
  std::mutex mutex_;  // guards the three below
  std::vector<Entry> entries_;
  std::unordered_set<std::string> pending_;
  std::exception_ptr closing_error_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace horo::coordinator

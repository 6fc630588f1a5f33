#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/doorbell.h"

namespace horo::coordinator {

/// Queue of operations from user threads to the coordinator. Thread-safe.
class TensorQueue {
 public:
  explicit TensorQueue(Doorbell& doorbell) : doorbell_(doorbell) {}

  /// Copies the initial values of an entry (Entry::initial), adds the entry and rings the doorbell.
  /// Throws InvalidArgument if one of the names of the entry is still pending as an operation or as
  /// a tensor of a group. Also throws InvalidArgument if a join is pending and the entry is not a
  /// shutdown. If submit() throws, it neither copies nor adds anything. After close(), completes
  /// the entry with the closing error instead.
  void submit(Entry entry);
  /// submit() without the doorbell, for a caller that runs the next round itself.
  void submit_quietly(Entry entry);
  /// Removes and returns all entries submitted since the last call, in order.
  std::vector<Entry> take_all();
  /// Allows the names of the request to be submitted again. The caller must call release() before
  /// it sets the completion of the entry.
  void release(const Request& request);
  /// Completes later submissions with `error`. Only the first call has an effect. Entries that are
  /// already in the queue stay available to take_all().
  void close(std::exception_ptr error);

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  void insert_names(const Request& request);

  Doorbell& doorbell_;
  std::mutex mutex_;  // guards entries_, pending_ and closing_error_
  std::vector<Entry> entries_;
  std::unordered_set<std::string> pending_;
  std::exception_ptr closing_error_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace horo::coordinator

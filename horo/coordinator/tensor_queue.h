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

/// Passes submitted entries from any thread to the owner of the coordinator's rounds. Thread-safe.
class TensorQueue {
 public:
  /// `doorbell` must outlive this object.
  explicit TensorQueue(Doorbell& doorbell) : doorbell_(doorbell) {}

  /// Copies the initial values of an entry (Entry::initial), adds the entry and rings the doorbell.
  /// After close(), does not add the entry. Instead, completes the entry with the error of close()
  /// and runs the callbacks of the entry on this thread.
  ///
  /// The names of an entry are the name of its operation and, for a group, the names of the
  /// tensors. They are pending until release(). Throws InvalidArgument if one of the names is
  /// already pending, or if the entry has a name twice. However, a group may have the name of its
  /// first tensor. Also throws InvalidArgument if a join is pending and the entry is not a
  /// shutdown. If it throws InvalidArgument, submit() has neither copied nor added anything.
  void submit(Entry entry);
  /// Like submit(), but does not ring the doorbell. The caller must run a round or ring the
  /// doorbell afterwards.
  void submit_quietly(Entry entry);
  /// Removes and returns all entries in the order in which they were added.
  std::vector<Entry> take_all();
  /// Ends the pending state of the names of a request, so that they can be submitted again. The
  /// caller must call release() before it sets the completion of the entry.
  void release(const Request& request);
  /// Makes later calls of submit() complete their entries with `error`. Only the first call of
  /// close() has an effect. take_all() still returns the entries that are already in the queue.
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

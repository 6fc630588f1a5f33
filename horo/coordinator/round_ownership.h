#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horo/base/system/futex.h"

namespace horo::coordinator {

/// Determines which thread runs the rounds of a Coordinator. At most one thread owns the rounds at
/// a time: the coordinator's thread or a caller of Coordinator::perform(). Writes of an owner
/// before release() are visible to the next owner.
class RoundOwnership {
 public:
  /// Acquires the ownership if no thread has it. Returns whether this call has acquired the
  /// ownership. Does not block.
  bool try_acquire() { return !is_owned_.exchange(true); }
  /// Gives up the ownership, which the calling thread must have, and calls wake().
  void release();
  /// Returns the number of calls of release() and wake(), modulo 2^32. A thread that calls
  /// wait_for_change() after a failed try_acquire() must read the number before try_acquire().
  std::uint32_t changes() const { return changes_; }
  /// Sleeps until changes() differs from `seen`, but at most for `timeout`. May return earlier.
  /// Only the coordinator's thread may call this function.
  void wait_for_change(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Increments changes() and wakes the thread in wait_for_change(). Does not affect the ownership.
  void wake();

 private:
  std::atomic<bool> is_owned_{false};
  std::atomic<std::uint32_t> changes_{0};
  std::atomic<bool> is_waited_for_{false};
};

// The exchange in try_acquire() of the next owner reads the value that this function stores. Both
// operations are sequentially consistent, so the next owner sees all earlier writes of this owner.
inline void RoundOwnership::release() {
  is_owned_ = false;
  wake();
}

inline void RoundOwnership::wake() {
  ++changes_;
  if (is_waited_for_) futex_wake_all(changes_);
}

// This function sets is_waited_for_ before it reads changes_. wake() increments changes_ before it
// reads is_waited_for_. All four accesses are sequentially consistent. So either this function
// reads the new value of changes_, or wake() makes the futex call. No wake-up is lost, because the
// kernel compares changes_ with `seen` before the thread sleeps. A flag suffices instead of a
// count, because only one thread calls this function.
inline void RoundOwnership::wait_for_change(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  is_waited_for_ = true;
  if (changes_ == seen) futex_wait(changes_, seen, timeout);
  is_waited_for_ = false;
}

}  // namespace horo::coordinator

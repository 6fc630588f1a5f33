#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horo/base/system/futex.h"

namespace horo::coordinator {

/// Ownership of the coordinator's rounds. One thread at a time owns them: the coordinator's thread
/// or a caller of perform(). Writes of an owner before release() are visible to the next owner.
class RoundOwnership {
 public:
  /// Returns whether this thread now owns the rounds. Does not block.
  bool try_acquire() { return !is_owned_.exchange(true); }
  /// Gives up the ownership and wakes threads in wait_for_change().
  void release();
  /// Returns the number of calls of release() and wake(), for wait_for_change(). The caller must
  /// read the number before try_acquire().
  std::uint32_t changes() const { return changes_; }
  /// Sleeps until another thread calls release() or wake(), but at most `timeout`. Returns at once
  /// if changes() differs from `seen`. May return early. Only the coordinator's thread may call
  /// this function.
  void wait_for_change(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Wakes threads in wait_for_change() without a change of ownership.
  void wake();

 private:
  std::atomic<bool> is_owned_{false};
  std::atomic<std::uint32_t> changes_{0};
  std::atomic<bool> is_waited_for_{false};
};

// The store to is_owned_ is sequentially consistent. Therefore the next owner sees all writes of
// this owner after its exchange.
inline void RoundOwnership::release() {
  is_owned_ = false;
  wake();
}

// Skips the futex call unless a thread sleeps in wait_for_change().
inline void RoundOwnership::wake() {
  ++changes_;
  if (is_waited_for_) futex_wake_all(changes_);
}

// This function sets the flag before it reads changes_. wake() changes the count before it reads
// the flag. So either this thread sees the new count or wake() sees the flag, and no wake-up is
// lost. One flag is enough, because only one thread calls this function.
inline void RoundOwnership::wait_for_change(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  is_waited_for_ = true;
  if (changes_ == seen) futex_wait(changes_, seen, timeout);
  is_waited_for_ = false;
}

}  // namespace horo::coordinator

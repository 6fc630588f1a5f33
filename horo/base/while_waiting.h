#pragma once

#include <functional>

namespace horo {

/// Work that goes on while a thread waits: as long as one lives, the waits (Waiter) of the thread
/// that made it do some of the work now and then. One at a time on a thread; destroyed on the same.
class WhileWaiting {
 public:
  /// `work` does what it can without waiting itself and returns whether that was anything. What it
  /// throws ends the wait.
  explicit WhileWaiting(std::function<bool()> work);
  ~WhileWaiting();
  WhileWaiting(const WhileWaiting&) = delete;
  WhileWaiting& operator=(const WhileWaiting&) = delete;

  /// Does some of this thread's work, for code that is busy for long between waits. Returns whether
  /// there was anything to do.
  static bool work_once();

 private:
  std::function<bool()> work_;
};

}  // namespace horo

#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "horo/base/wait.h"

namespace horo::coordinator {

/// The wait policies of the collectives of one plan or one DeviceOperationQueue. While is_cancelled
/// is true, waits with these policies end with ShutdownError; see WaitPolicy::cancelled. Not
/// thread-safe, except is_cancelled.
struct PlanWaits {
  /// If `look` is not empty, a waiting thread calls `look` before each sleep; see
  /// WaitPolicy::before_nap.
  explicit PlanWaits(const WaitPolicy& policy, std::function<void()> look = {})
      : of_caller(policy), before_nap(std::move(look)) {
    of_caller.cancelled = &is_cancelled;
    if (before_nap) of_caller.before_nap = &before_nap;
    use_spin_waits();
  }
  PlanWaits(const PlanWaits&) = delete;
  PlanWaits& operator=(const PlanWaits&) = delete;

  /// Resets in_node and between_nodes to of_caller, whose waits may spin and yield. For a thread
  /// that need not leave its core to a computing thread.
  void use_spin_waits() { in_node = between_nodes = of_caller; }
  /// Like use_spin_waits(), but waits do not call `look`. For collectives between two steps, since
  /// another rank that has completed them may already do something else than the next step.
  void use_waits_between_steps() {
    use_spin_waits();
    in_node.before_nap = between_nodes.before_nap = nullptr;
  }
  /// Makes waits sleep after the first polls instead of spinning and yielding. For a thread that
  /// shares its core with a computing thread. After a yield, the waiting thread may get the core
  /// back only some milliseconds later, at the end of the time slice of the computing thread. After
  /// a sleep, the scheduler usually runs the waiting thread at once.
  ///
  /// The arrival of a message from another node does not end a sleep. Therefore waits between nodes
  /// sleep for at most 200 us at a time. They sleep after every poll, because a poll of MPI is
  /// expensive and may yield.
  void use_sleep_waits() {
    use_spin_waits();
    in_node.spin = in_node.yield = std::chrono::nanoseconds(0);
    between_nodes.spin = between_nodes.yield = std::chrono::nanoseconds(0);
    between_nodes.longest_nap = std::chrono::microseconds(200);
    between_nodes.quick_polls = 1;
  }

  WaitPolicy of_caller;
  const std::function<void()> before_nap;
  WaitPolicy in_node;
  WaitPolicy between_nodes;
  std::atomic<bool> is_cancelled{false};
};

}  // namespace horo::coordinator

#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "horo/base/wait.h"

namespace horo::coordinator {

/// The wait policies of the collectives of one plan or DeviceOperationQueue. The flag is_cancelled
/// ends the waits when a plan is cancelled. Not thread-safe, except is_cancelled.
struct PlanWaits {
  /// If `look` is not empty, long waits call it before each sleep; see WaitPolicy::before_nap.
  explicit PlanWaits(const WaitPolicy& policy, std::function<void()> look = {})
      : of_caller(policy), before_nap(std::move(look)) {
    of_caller.cancelled = &is_cancelled;
    if (before_nap) of_caller.before_nap = &before_nap;
    use_spin_waits();
  }
  PlanWaits(const PlanWaits&) = delete;
  PlanWaits& operator=(const PlanWaits&) = delete;

  /// Makes waits follow the policy of the caller. For a thread that only waits.
  void use_spin_waits() { in_node = between_nodes = of_caller; }
  /// Makes waits sleep after the first polls. For a thread that shares its core with computation.
  /// Sleeping is better than yielding. After a yield, the thread may wait some milliseconds for the
  /// core. After a sleep, the scheduler runs the thread almost at once. Waits between nodes sleep
  /// briefly, because no event announces a message, and the link may be idle until the message is
  /// received. These waits sleep after every poll, because a poll is expensive. MPI may yield
  /// during a poll.
  void use_sleep_waits() {
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

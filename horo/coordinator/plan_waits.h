#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "horo/base/wait.h"

namespace horo::coordinator {

/// How the collectives of one plan wait, and the flag that ends their waits when the plan is given
/// up. Not thread-safe but for is_cancelled.
struct PlanWaits {
  /// `look`, if not empty: what is done now and then in long waits; see WaitPolicy::before_nap.
  explicit PlanWaits(const WaitPolicy& policy, std::function<void()> look = {})
      : of_caller(policy), before_nap(std::move(look)) {
    of_caller.cancelled = &is_cancelled;
    if (before_nap) of_caller.before_nap = &before_nap;
    keep_the_core();
  }
  PlanWaits(const PlanWaits&) = delete;
  PlanWaits& operator=(const PlanWaits&) = delete;

  /// Of a thread that has nothing else to do than to wait.
  void keep_the_core() { in_node = between_nodes = of_caller; }
  /// Of a thread whose core somebody else computes on: nothing is polled without a nap. (To yield
  /// is worse than to sleep: the scheduler gives the core back when it likes, after some
  /// milliseconds, but to a thread that wakes up nearly at once.) Nobody announces the arrival of a
  /// message, and while it lies there the link may stand still, so those naps stay short. To look
  /// for one is costly: MPI may yield meanwhile.
  void nap_only() {
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

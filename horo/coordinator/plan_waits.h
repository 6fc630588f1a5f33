#pragma once

#include <atomic>

#include "horo/base/wait.h"

namespace horo::coordinator {

/// How the collectives of one plan wait, and the flag that ends their waits when the plan is given
/// up.
struct PlanWaits {
  explicit PlanWaits(const WaitPolicy& policy) : in_node(policy), between_nodes(policy) {
    in_node.cancelled = &is_cancelled;
    between_nodes.cancelled = &is_cancelled;
  }
  PlanWaits(const PlanWaits&) = delete;
  PlanWaits& operator=(const PlanWaits&) = delete;

  WaitPolicy in_node;
  WaitPolicy between_nodes;
  std::atomic<bool> is_cancelled{false};
};

}  // namespace horo::coordinator

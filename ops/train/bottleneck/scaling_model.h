#pragma once

#include <optional>
#include <vector>

#include "ops/train/bottleneck/job_costs.h"
#include "ops/train/bottleneck/step_replay.h"

namespace horo::ops {

/// The step with more ranks, each with as many samples as now.
struct ScalingPrediction {
  int ranks = 0;
  double communication_ms = 0;
  double step_ms = 0;
  double efficiency = 0;  ///< speed relative to this job's speed times the factor of ranks
};

/// The model of a step: t = max(t_compute, t_communication) + rest. Computation and communication
/// overlap; the rest (data wait, optimizer, logging, checkpoints, straggler wait) does not overlap
/// with them.
struct ScalingModel {
  double compute_ms = 0;        ///< forward and backward, of the slowest rank in each step
  double communication_ms = 0;  ///< of all gradients, hidden or exposed
  double rest_ms = 0;
  double step_ms() const;
  std::vector<ScalingPrediction> predictions;  ///< for 2, 4 and 8 times the ranks
  /// The smallest global batch with t_compute >= t_communication: in proportion to the samples.
  std::optional<std::uint64_t> hiding_batch;
};

/// Needs job.communication; nothing without it. Time of communication for n ranks: a ring sends
/// 2(n-1)/n of the bytes in 2(n-1) messages per bucket. The added ranks have cores and links of
/// their own. Source of the cost: Thakur, Rabenseifner and Gropp, "Optimization of collective
/// communication operations in MPICH" (2005).
std::optional<ScalingModel> scaling_model(const JobCosts& job, const StepReplay& replay);

}  // namespace horo::ops

#pragma once

#include <optional>
#include <string>
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

/// The model of a step:
///
///   t = max(t_compute, t_communication) + t_gather + rest
///
/// Computation and communication overlap; the rest (data wait, optimizer, logging, checkpoints,
/// straggler wait) does not overlap with them. t_gather is the allgather of a sharded optimizer.
/// With local steps, an exchange of all fragments in `count` steps is hidden by the steps in which
/// it may be in flight:
///
///   t = own + max(0, t_communication - window * own) / count,   own = t_compute + rest,
///   window = min(fragments * overlap, count)
struct ScalingModel {
  double compute_ms = 0;  ///< forward and backward, of the slowest rank
  double communication_ms =
      0;  ///< of all gradients, hidden or exposed; with local steps, of all changes
  double gather_ms = 0;
  double rest_ms = 0;
  LocalSteps local_steps{};  ///< count 0: an exchange in every step
  /// Only the bytes of an exchange are known to grow, because its latency was not measured: the
  /// predictions for more ranks are the shortest possible ones.
  bool is_lower_bound = false;
  std::vector<ScalingPrediction> predictions{};  ///< for 2, 4 and 8 times the ranks
  /// The smallest global batch that hides the communication (without t_gather): t_compute grows in
  /// proportion to the samples. Nothing if no batch does.
  std::optional<std::uint64_t> hiding_batch{};

  double exposed_ms() const;  ///< per step, with t_gather
  double step_ms() const { return compute_ms + exposed_ms() + rest_ms; }
  /// The steps in which parts of an exchange of local steps may be in flight.
  double window() const;
};

/// Needs job.communication; nothing without it. Time of communication for n ranks: a ring sends
/// 2(n-1)/n of the bytes in 2(n-1) messages per bucket, a reduce-scatter or an allgather half of
/// both. A sharded update takes 1/n of the time of a whole one. The added ranks have cores and
/// links of their own. Source of the cost: Thakur, Rabenseifner and Gropp, "Optimization of
/// collective communication operations in MPICH" (2005).
std::optional<ScalingModel> scaling_model(const JobCosts& job, const StepReplay& replay);

/// "max(computation 9 ms, communication 12 ms) + rest 1.5 ms": the sum that step_ms() is.
std::string describe(const ScalingModel& model);
/// "computation takes as long as communication from a global batch of 43 on". Requires
/// hiding_batch.
std::string describe_hiding(const ScalingModel& model);

/// The reason why scaling_model() returns nothing, one clause.
std::string why_no_model(const JobCosts& job);

}  // namespace horo::ops

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/train/bottleneck/job_costs.h"
#include "ops/train/bottleneck/scaling_model.h"

namespace horo::ops {

/// Why steps take longer than they could.
enum class Cause {
  kSlowReader,     ///< loader threads wait for files
  kSlowDecode,     ///< loader threads decode too slowly
  kDataBursts,     ///< batches are loaded fast enough on average, but not at the time of need
  kSlowRank,       ///< one rank computes more slowly than the others
  kSuspendedRank,  ///< one rank does not run all the time
  kBusyCores,      ///< all ranks wait for cores
  kImbalance,      ///< the work of a step differs between ranks
  kSmallBuckets,   ///< the exchange has too many messages
  kSlowLink,       ///< the bytes of the gradients take too long
  kSmallBatch,     ///< work that does not depend on the batch takes a large part of the step
  kCheckpoints,
  kLogging,
  kLaunches,       ///< a device waits for the host to submit its work
  kShardedUpdate,  ///< the exchange of a sharded optimizer is hidden less than that of a whole one
  kOuterExchange,  ///< the exchange between local steps takes long
};
/// "slow reader", "slow decode", ...: the names in the JSON report.
std::string_view name_of(Cause cause);

struct Recommendation {
  Cause cause = Cause::kSlowReader;
  std::string evidence;    ///< what was measured
  std::string remedy;      ///< what to change
  double regained_ms = 0;  ///< shorter mean step; for kSmallBatch per step of the present batch
  int rank = -1;           ///< the rank that causes it; -1: no single rank

  /// "data wait is 46 % of the step: ...; --workers 2 would save about 9 ms"
  std::string sentence() const;
};

/// Where the time of one rank went, means in ms.
struct RankDiagnosis {
  StepTimes phases;  ///< kExposedCommunication without the straggler wait
  double straggler_wait_ms = 0;
};

struct Diagnosis {
  double step_ms = 0;  ///< mean over the steps
  std::size_t steps = 0;
  std::vector<RankDiagnosis> ranks;
  std::optional<ScalingModel> model;
  std::string no_model;  ///< the reason why there is no model, one clause; empty with a model
  /// At most three, the most important one first. Each alone would regain its time; the sum may
  /// regain less.
  std::vector<Recommendation> recommendations;
  /// What was noticed, but without a time that a change would regain: one clause each.
  std::vector<std::string> notes;
  std::string summary;  ///< one line; also states if there is no single cause
};

/// What a report shows.
struct JobBottlenecks {
  JobCosts costs;
  Diagnosis diagnosis;
};

/// A cause is reported if its removal would regain at least this share of the step.
inline constexpr double kLeastRegainedShare = 0.06;

/// Finds what makes the steps of a job long. Each time that a recommendation would regain is the
/// difference of the measured steps and of a replay of the same steps without the cost. Pure.
Diagnosis diagnose(const JobCosts& job);

}  // namespace horo::ops

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/train/bottleneck/diagnosis.h"
#include "ops/train/bottleneck/step_replay.h"

namespace horo::ops {

/// What diagnose() examines.
struct Evidence {
  const JobCosts& job;
  const StepReplay& replay;
  double step_ms;

  double share(double milliseconds) const { return step_ms > 0 ? milliseconds / step_ms : 0; }
  bool is_worth(double milliseconds) const { return share(milliseconds) >= kLeastRegainedShare; }
};

/// The rank that computes longest.
struct SlowRank {
  std::size_t rank = 0;
  double compute_ms = 0;
  double excess_ms = 0;  ///< over the usual rank
  double paused_ms = 0;  ///< per step: more than on the usual rank, its process did not run

  /// Whether pauses explain that it computes longer.
  bool is_paused() const { return excess_ms > 0 && paused_ms >= 0.5 * excess_ms; }
};
SlowRank slowest_rank(const Evidence& evidence);

/// Whether a rank writes checkpoints, and its training thread waits for the core that the writer
/// uses.
bool is_delayed_by_writer(const Evidence& evidence, const SlowRank& slow);

/// Causes of one kind that are worth a recommendation, the most important one first.
std::vector<Recommendation> data_causes(const Evidence& evidence);
std::vector<Recommendation> compute_causes(const Evidence& evidence);
std::vector<Recommendation> core_causes(const Evidence& evidence);
std::vector<Recommendation> communication_causes(const Evidence& evidence);
std::vector<Recommendation> pause_causes(const Evidence& evidence);
std::vector<Recommendation> launch_causes(const Evidence& evidence);

/// What was noticed of devices, without a time that a change would regain.
std::vector<std::string> device_notes(const Evidence& evidence);

}  // namespace horo::ops

#pragma once

#include <optional>
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

/// Causes of one kind that are worth a recommendation, the most important one first.
std::vector<Recommendation> data_causes(const Evidence& evidence);
std::vector<Recommendation> compute_causes(const Evidence& evidence);
std::vector<Recommendation> core_causes(const Evidence& evidence);
std::vector<Recommendation> communication_causes(const Evidence& evidence);
std::vector<Recommendation> pause_causes(const Evidence& evidence);

}  // namespace horo::ops

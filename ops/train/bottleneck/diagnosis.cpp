#include "ops/train/bottleneck/diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ops/train/bottleneck/causes.h"

namespace horo::ops {
namespace {

constexpr std::size_t kMostRecommendations = 3;

/// Causes of one kind: the first one leads, the others are alternatives or less important.
using CauseGroup = std::vector<Recommendation>;

std::vector<Recommendation> sorted(std::vector<CauseGroup> groups) {
  std::erase_if(groups, [](const CauseGroup& group) { return group.empty(); });
  std::ranges::stable_sort(groups, std::ranges::greater(),
                           [](const CauseGroup& group) { return group[0].regained_ms; });
  std::vector<Recommendation> result;
  for (CauseGroup& group : groups)
    for (Recommendation& one : group) result.push_back(std::move(one));
  if (result.size() > kMostRecommendations) result.resize(kMostRecommendations);
  return result;
}

std::string summary_of(const Diagnosis& diagnosis) {
  double compute = 0;
  for (const RankDiagnosis& rank : diagnosis.ranks)
    compute += rank.phases[StepPhase::kForward] + rank.phases[StepPhase::kBackward];
  const double share =
      diagnosis.ranks.empty() || diagnosis.step_ms <= 0
          ? 0
          : 100 * compute / static_cast<double>(diagnosis.ranks.size()) / diagnosis.step_ms;
  const auto& causes = diagnosis.recommendations;
  if (causes.empty())
    return share >= 70 ? fmt::format(
                             "no bottleneck: forward and backward take {:.0f} % of the "
                             "step",
                             share)
                       : fmt::format(
                             "no single cause: forward and backward take {:.0f} % of the "
                             "step, and no change would regain {:.0f} % of it",
                             share, 100 * kLeastRegainedShare);
  double sum = 0;
  for (const Recommendation& one : causes) sum += one.regained_ms;
  if (causes.size() > 1 && causes[0].regained_ms < 0.5 * sum)
    return fmt::format("no single cause: {}, {}{}", name_of(causes[0].cause),
                       name_of(causes[1].cause), causes.size() > 2 ? " and others" : "");
  return std::string(name_of(causes[0].cause));
}

}  // namespace

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::kSlowReader:
      return "slow reader";
    case Cause::kSlowDecode:
      return "slow decode";
    case Cause::kDataBursts:
      return "data bursts";
    case Cause::kSlowRank:
      return "slow rank";
    case Cause::kSuspendedRank:
      return "suspended rank";
    case Cause::kBusyCores:
      return "busy cores";
    case Cause::kImbalance:
      return "imbalance";
    case Cause::kSmallBuckets:
      return "small buckets";
    case Cause::kSlowLink:
      return "slow link";
    case Cause::kSmallBatch:
      return "small batch";
    case Cause::kCheckpoints:
      return "checkpoints";
    case Cause::kLogging:
      return "logging";
    case Cause::kLaunches:
      return "launches";
    case Cause::kShardedUpdate:
      return "sharded update";
    case Cause::kOuterExchange:
      return "outer exchange";
  }
  return "unknown";
}

std::string Recommendation::sentence() const {
  return fmt::format("{}; {} would save about {:.2g} ms", evidence, remedy, regained_ms);
}

Diagnosis diagnose(const JobCosts& job) {
  const StepReplay replay(job);
  Diagnosis diagnosis{.step_ms = replay.step_ms(), .steps = replay.step_count()};
  for (std::size_t rank = 0; rank < replay.rank_count(); ++rank)
    diagnosis.ranks.push_back({replay.mean(rank), replay.straggler_wait(rank)});
  if (diagnosis.steps == 0) {
    diagnosis.summary = "no step was measured";
    return diagnosis;
  }
  diagnosis.model = scaling_model(job, replay);
  diagnosis.no_model = why_no_model(job);
  const Evidence evidence{job, replay, diagnosis.step_ms};
  std::vector<Recommendation> pauses = pause_causes(evidence);
  std::vector<CauseGroup> groups{data_causes(evidence), compute_causes(evidence),
                                 core_causes(evidence), communication_causes(evidence),
                                 launch_causes(evidence)};
  for (Recommendation& pause : pauses) groups.push_back({std::move(pause)});
  diagnosis.recommendations = sorted(std::move(groups));
  diagnosis.notes = device_notes(evidence);
  diagnosis.summary = summary_of(diagnosis);
  return diagnosis;
}

}  // namespace horo::ops

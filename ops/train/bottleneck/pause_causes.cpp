#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/train/bottleneck/causes.h"

namespace horo::ops {
namespace {

// Checkpoints may take this share of a step.
constexpr double kCheckpointShare = 0.01;
constexpr std::uint64_t kLogEvery = 20;

double regained_without(const Evidence& evidence, StepPhase phase, StepReplay replay) {
  for (std::size_t rank = 0; rank < replay.rank_count(); ++rank) replay.scale(rank, phase, 0);
  return evidence.step_ms - replay.step_ms();
}

// The number of steps from one long phase to the next, on the rank with the most of them.
double interval_of(const Evidence& evidence, StepPhase phase) {
  double share = 0;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank)
    share = std::max(share, evidence.replay.share_of_steps(rank, phase, 0.02 * evidence.step_ms));
  return share > 0 ? 1 / share : 1;
}

std::string every(double interval) {
  return interval < 1.5 ? "in every step" : fmt::format("in every {:.0f} steps", interval);
}

std::optional<Recommendation> checkpoints(const Evidence& evidence) {
  const SlowRank slow = slowest_rank(evidence);
  const bool delays = is_delayed_by_writer(evidence, slow);
  StepReplay replay = evidence.replay;
  if (delays) replay.compute_as_others(slow.rank);
  const double all = regained_without(evidence, StepPhase::kCheckpoint, std::move(replay));
  if (!evidence.is_worth(all)) return std::nullopt;
  const double interval = interval_of(evidence, StepPhase::kCheckpoint);
  const double rest = std::max(1e-3, evidence.step_ms - all);
  const double longer = std::ceil(interval * all / (kCheckpointShare * rest));
  return Recommendation{
      .cause = Cause::kCheckpoints,
      .evidence = fmt::format("checkpoints take {:.0f} % of the step: one of {:.3g} ms {}{}",
                              100 * evidence.share(all), all * interval, every(interval),
                              delays ? fmt::format(", with the core that the writer of rank {} "
                                                   "takes from its training thread",
                                                   slow.rank)
                                     : ""),
      .remedy = fmt::format("--checkpoint-every {:.0f}", longer),
      .regained_ms = all * (1 - interval / std::max(longer, interval))};
}

std::optional<Recommendation> logging(const Evidence& evidence) {
  const double all = regained_without(evidence, StepPhase::kLogging, evidence.replay);
  if (!evidence.is_worth(all)) return std::nullopt;
  const double interval = interval_of(evidence, StepPhase::kLogging);
  const double longer = std::ceil(interval) * static_cast<double>(kLogEvery);
  return Recommendation{
      .cause = Cause::kLogging,
      .evidence =
          fmt::format("progress lines and callbacks take {:.0f} % of the step: {:.3g} ms {}",
                      100 * evidence.share(all), all * interval, every(interval)),
      .remedy = fmt::format("one log entry in {:.0f} steps (--log-every {:.0f} for progress lines)",
                            longer, longer),
      .regained_ms = all * (1 - interval / longer)};
}

}  // namespace

std::vector<Recommendation> pause_causes(const Evidence& evidence) {
  std::vector<Recommendation> causes;
  if (auto cause = checkpoints(evidence)) causes.push_back(*std::move(cause));
  if (auto cause = logging(evidence)) causes.push_back(*std::move(cause));
  return causes;
}

}  // namespace horo::ops

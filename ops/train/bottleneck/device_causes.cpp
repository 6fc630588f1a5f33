#include <fmt/core.h>

#include <algorithm>

#include "ops/train/bottleneck/causes.h"

namespace horo::ops {
namespace {

// A device waits for launches if it has caught up with the host in this share of the steps, and if
// the host submits, and the device computes, for this share of a step.
constexpr double kCaughtUpShare = 0.9;
constexpr double kLaunchingShare = 0.5;
// Less of a lowered clock hardly changes a mean.
constexpr double kHotShare = 0.05;

// A host that waits for space in the queue of its device submits for as long as the device
// computes, too; but then the device is far behind.
bool waits_for_launches(const Evidence& evidence, std::size_t rank) {
  const auto& launches = evidence.job.ranks[rank].launches;
  if (!launches || launches->caught_up < kCaughtUpShare) return false;
  const StepTimes mean = evidence.replay.mean(rank);
  const double computed =
      mean[StepPhase::kForward] + mean[StepPhase::kBackward] + mean[StepPhase::kOptimizer];
  return std::min(evidence.share(computed), evidence.share(launches->host_ms)) >= kLaunchingShare;
}

bool all_wait_for_launches(const Evidence& evidence) {
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank)
    if (!waits_for_launches(evidence, rank)) return false;
  return evidence.job.is_on_device && !evidence.job.is_graph && evidence.replay.rank_count() > 0;
}

bool knows_busy_time(const JobCosts& job) {
  return std::ranges::all_of(job.ranks,
                             [](const RankCosts& rank) { return rank.device.has_value(); });
}

// The time per step in which a device was idle although neither data, nor callbacks, nor other
// ranks were the reason.
double idle_by_launches(const Evidence& evidence, std::size_t rank) {
  const RankCosts& costs = evidence.job.ranks[rank];
  const StepTimes mean = evidence.replay.mean(rank);
  double idle = (1 - costs.device->busy) * evidence.step_ms - evidence.replay.straggler_wait(rank);
  for (const StepPhase phase :
       {StepPhase::kDataWait, StepPhase::kTransfer, StepPhase::kExposedCommunication,
        StepPhase::kLogging, StepPhase::kCheckpoint})
    idle -= mean[phase];
  return std::clamp(idle, 0.0, costs.launches->host_ms);
}

std::size_t rank_with_least_idle_time(const Evidence& evidence) {
  std::size_t least = 0;
  for (std::size_t rank = 1; rank < evidence.replay.rank_count(); ++rank)
    if (idle_by_launches(evidence, rank) < idle_by_launches(evidence, least)) least = rank;
  return least;
}

std::string describe_launches(const LaunchCosts& launches) {
  return fmt::format(
      "the device waits for the host, which submits the work of a step in {:.3g} ms: in {:.0f} % "
      "of "
      "the steps, forward had ended before the host had submitted the rest",
      launches.host_ms, 100 * launches.caught_up);
}

std::string launch_note(const Evidence& evidence) {
  const std::string what = describe_launches(*evidence.job.ranks[0].launches);
  if (!evidence.job.can_be_graph)
    return what + "; a graph would be one launch, but needs one pass per step and fixed shares";
  return what + "; --graph submits a step at once, but without NVML no time can be promised";
}

std::optional<std::string> heat_note(const JobCosts& job) {
  const auto hot = [](const RankCosts& rank) { return rank.device ? rank.device->hot : 0; };
  const auto hottest = std::ranges::max_element(job.ranks, {}, hot);
  if (hottest == job.ranks.end() || hot(*hottest) < kHotShare) return std::nullopt;
  return fmt::format(
      "the clock of the device of rank {} on {} was lowered {:.0f} % of the time "
      "because of its temperature",
      hottest->rank, hottest->host, 100 * hot(*hottest));
}

}  // namespace

std::vector<Recommendation> launch_causes(const Evidence& evidence) {
  if (!evidence.job.can_be_graph || !all_wait_for_launches(evidence) ||
      !knows_busy_time(evidence.job))
    return {};
  const std::size_t rank = rank_with_least_idle_time(evidence);
  const double regained = idle_by_launches(evidence, rank);
  if (!evidence.is_worth(regained)) return {};
  const RankCosts& costs = evidence.job.ranks[rank];
  return {{.cause = Cause::kLaunches,
           .evidence = fmt::format("{}; it was busy {:.0f} % of the time",
                                   describe_launches(*costs.launches), 100 * costs.device->busy),
           .remedy = "--graph",
           .regained_ms = regained}};
}

std::vector<std::string> device_notes(const Evidence& evidence) {
  std::vector<std::string> notes;
  if (all_wait_for_launches(evidence) &&
      !(evidence.job.can_be_graph && knows_busy_time(evidence.job)))
    notes.push_back(launch_note(evidence));
  if (auto note = heat_note(evidence.job)) notes.push_back(*std::move(note));
  return notes;
}

}  // namespace horo::ops

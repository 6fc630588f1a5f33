#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ops/train/bottleneck/causes.h"

namespace horo::ops {
namespace {

// A rank is the cause of unequal computing times if it alone explains this share of them.
constexpr double kPersistentShare = 0.6;
// Share of the excess that samples must explain.
constexpr double kExplainedShare = 0.5;
// A rank whose copies for checkpoints take this share of a step writes checkpoints often.
constexpr double kWriterShare = 0.02;

double compute_of(const Evidence& evidence, std::size_t rank) {
  const StepTimes mean = evidence.replay.mean(rank);
  return mean[StepPhase::kForward] + mean[StepPhase::kBackward];
}

// The lower median, so that of two ranks the slower one is the exception.
double usual(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <typename ValueOf>
double usual_of(const Evidence& evidence, ValueOf value_of) {
  std::vector<double> values;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank)
    values.push_back(value_of(rank));
  return usual(std::move(values));
}

// The time per step in which the process of a rank did not run although it could.
double paused_ms(const Evidence& evidence, std::size_t rank) {
  const ProcessCosts& process = evidence.job.ranks[rank].process;
  if (process.seconds <= 0) return 0;
  // While it waits for a core, its ticker may wait as well.
  return std::max(process.suspended_seconds, process.waiting_seconds) / process.seconds *
         evidence.step_ms;
}

}  // namespace

SlowRank slowest_rank(const Evidence& evidence) {
  SlowRank slowest;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank)
    if (const double compute = compute_of(evidence, rank); compute > slowest.compute_ms)
      slowest = {rank, compute};
  const auto compute = [&](std::size_t rank) { return compute_of(evidence, rank); };
  const auto paused = [&](std::size_t rank) { return paused_ms(evidence, rank); };
  slowest.excess_ms = slowest.compute_ms - usual_of(evidence, compute);
  slowest.paused_ms = paused(slowest.rank) - usual_of(evidence, paused);
  return slowest;
}

bool is_delayed_by_writer(const Evidence& evidence, const SlowRank& slow) {
  const ProcessCosts& process = evidence.job.ranks[slow.rank].process;
  const double saving = evidence.replay.mean(slow.rank)[StepPhase::kCheckpoint];
  return slow.is_paused() && process.waiting_seconds > process.suspended_seconds &&
         evidence.share(saving) >= kWriterShare;
}

namespace {

double longest_straggler_wait(const Evidence& evidence) {
  double longest = 0;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank)
    longest = std::max(longest, evidence.replay.straggler_wait(rank));
  return longest;
}

Recommendation balancing(const Evidence& evidence, std::string text, double regained) {
  return {.cause = Cause::kImbalance,
          .evidence = fmt::format("ranks wait up to {:.0f} % of the step for others: {}",
                                  100 * evidence.share(longest_straggler_wait(evidence)), text),
          .remedy = "equal work for all ranks in each step",
          .regained_ms = regained};
}

double regained_by_balance(const Evidence& evidence) {
  StepReplay balanced = evidence.replay;
  balanced.balance_compute();
  return evidence.step_ms - balanced.step_ms();
}

// The reason why the process of a rank did not run; its remedy.
std::pair<std::string, std::string> describe_pauses(const ProcessCosts& process) {
  const double suspended = 100 * process.suspended_seconds / process.seconds;
  const double waiting = 100 * process.waiting_seconds / process.seconds;
  if (suspended < waiting)
    return {fmt::format("it waited {:.0f} % of the time for a core ({} involuntary switches)",
                        waiting, process.involuntary_switches),
            "a core of its own for the rank: end other programs there, or bind ranks to cores"};
  if (process.major_faults > 100)
    return {fmt::format("it was swapped out {:.0f} % of the time ({} pages were read from disk)",
                        suspended, process.major_faults),
            "more memory for the rank"};
  return {fmt::format("its process could not run {:.0f} % of the time", suspended),
          "no stop signals, CPU limits and overcommitted virtual machines for the rank"};
}

// Samples more of which a rank has with a lowered clock than any other rank.
constexpr double kLoweredClockShare = 0.2;

double excess(const Evidence& evidence, std::size_t rank, double DeviceCosts::*share) {
  const auto of = [&](const RankCosts& costs) { return costs.device ? (*costs.device).*share : 0; };
  double others = 0;
  for (std::size_t other = 0; other < evidence.job.ranks.size(); ++other)
    if (other != rank) others = std::max(others, of(evidence.job.ranks[other]));
  return of(evidence.job.ranks[rank]) - others;
}

// The reason why the clock of a device is lower than those of the others; empty: it is not.
std::string why_clock_is_low(const Evidence& evidence, std::size_t rank) {
  if (excess(evidence, rank, &DeviceCosts::hot) >= kLoweredClockShare) return "temperature";
  if (excess(evidence, rank, &DeviceCosts::power_limited) >= kLoweredClockShare)
    return "power limit";
  return {};
}

Recommendation slow_rank(const Evidence& evidence, const SlowRank& slow, double regained) {
  const RankCosts& costs = evidence.job.ranks[slow.rank];
  const std::string compute =
      fmt::format("forward and backward take {:.3g} ms on rank {} of {}, {:.3g} ms on others",
                  slow.compute_ms, slow.rank, costs.host, slow.compute_ms - slow.excess_ms);
  Recommendation result{.cause = Cause::kSlowRank,
                        .evidence = compute,
                        .remedy = fmt::format("rank {} as fast as the others (its host, clock or "
                                              "device), or fewer samples for it",
                                              slow.rank),
                        .regained_ms = regained,
                        .rank = static_cast<int>(slow.rank)};
  if (slow.is_paused()) {
    const auto [why, remedy] = describe_pauses(costs.process);
    result.cause = Cause::kSuspendedRank;
    result.evidence = fmt::format("{}: {}", compute, why);
    result.remedy = remedy;
  } else if (const std::string why = why_clock_is_low(evidence, slow.rank); !why.empty()) {
    result.evidence =
        fmt::format("{}: the clock of its device was lowered because of its {}", compute, why);
    result.remedy =
        fmt::format("a full clock on the device of rank {} (cooling, power supply)", slow.rank);
  }
  return result;
}

// Whether a rank computes longer because it has more samples.
bool has_more_samples(const Evidence& evidence, const SlowRank& slow) {
  const double samples = usual_of(
      evidence, [&](std::size_t rank) { return evidence.job.ranks[rank].samples_per_step; });
  if (samples <= 0) return false;
  const double more = evidence.job.ranks[slow.rank].samples_per_step / samples - 1;
  return more * (slow.compute_ms - slow.excess_ms) >= kExplainedShare * slow.excess_ms;
}

}  // namespace

std::vector<Recommendation> compute_causes(const Evidence& evidence) {
  // With overlapping exchanges of local steps the ranks do not wait for each other at known steps.
  if (evidence.replay.rank_count() < 2 || evidence.job.local_steps.overlap > 0) return {};
  const SlowRank slow = slowest_rank(evidence);
  const double usual_ms = slow.compute_ms - slow.excess_ms;
  const double spread = evidence.replay.longest_compute_ms() - usual_ms;
  const bool is_persistent = spread > 0 && slow.excess_ms >= kPersistentShare * spread;
  const double by_balance = regained_by_balance(evidence);
  if (is_persistent && !has_more_samples(evidence, slow)) {
    StepReplay replay = evidence.replay;
    replay.compute_as_others(slow.rank);
    const double regained = evidence.step_ms - replay.step_ms();
    if (evidence.is_worth(regained) && !is_delayed_by_writer(evidence, slow))
      return {slow_rank(evidence, slow, regained)};
    return {};
  }
  if (!evidence.is_worth(by_balance)) return {};
  if (is_persistent)
    return {balancing(evidence,
                      fmt::format("rank {} has {:.3g} samples per step", slow.rank,
                                  evidence.job.ranks[slow.rank].samples_per_step),
                      by_balance)};
  return {balancing(evidence,
                    fmt::format("the longest forward and backward of a step takes {:.3g} ms, the "
                                "mean {:.3g} ms, on different ranks in turn",
                                evidence.replay.longest_compute_ms(),
                                evidence.replay.longest_compute_ms() - by_balance),
                    by_balance)};
}

// All ranks would run at least as much faster as the one that waits least.
std::vector<Recommendation> core_causes(const Evidence& evidence) {
  double least = evidence.step_ms, running = 0;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank) {
    const ProcessCosts& process = evidence.job.ranks[rank].process;
    if (process.seconds <= 0) return {};
    least = std::min(least, paused_ms(evidence, rank));
    running = std::max(running, process.cpu_seconds / process.seconds);
  }
  if (!evidence.is_worth(least)) return {};
  return {{.cause = Cause::kBusyCores,
           .evidence = fmt::format("every rank was ready to run for at least {:.0f} % of the time "
                                   "and had no core; a rank used at most {:.2f} cores",
                                   100 * evidence.share(least), running),
           .remedy = "fewer programs, ranks or threads on these hosts",
           .regained_ms = least}};
}

}  // namespace horo::ops

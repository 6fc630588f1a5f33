#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "horo/base/text/quantity.h"
#include "ops/train/bottleneck/causes.h"

namespace horo::ops {
namespace {

constexpr std::size_t kMostWorkers = 16;
// Threads of a loader that is too slow are busy all the time.
constexpr double kBusyLoader = 0.85;
// Loading must be somewhat faster than training, because both vary.
constexpr double kLoaderMargin = 0.9;

std::string threads(std::size_t count) {
  return fmt::format("{} thread{}", count, count == 1 ? "" : "s");
}

/// The loader of the rank that waits longest for data.
struct SlowLoader {
  std::size_t rank = 0;
  double waited_ms = 0;  // per step
  LoaderCosts costs;

  bool reads() const { return costs.reading_cpu_ms < 0.5 * costs.reading_ms; }
  double batch_ms(std::size_t workers) const {
    return costs.reading_ms / static_cast<double>(std::max<std::size_t>(1, workers));
  }
  // Not more threads load at the same time than batches are loaded ahead.
  double batch_ms_now() const {
    return batch_ms(costs.prefetch > 0 ? std::min(costs.workers, costs.prefetch) : costs.workers);
  }
};

SlowLoader slowest_loader(const Evidence& evidence) {
  SlowLoader slowest;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank) {
    const double waited = evidence.replay.mean(rank)[StepPhase::kDataWait];
    if (waited >= slowest.waited_ms) slowest = {rank, waited, evidence.job.ranks[rank].loader};
  }
  return slowest;
}

// The step if every rank waits for data only `factor` times as long.
double regained_by(const Evidence& evidence, double left_ms, double longest_ms) {
  StepReplay replay = evidence.replay;
  const double factor = longest_ms > 0 ? left_ms / longest_ms : 0;
  for (std::size_t rank = 0; rank < replay.rank_count(); ++rank)
    replay.scale(rank, StepPhase::kDataWait, factor);
  return evidence.step_ms - replay.step_ms();
}

// Cores that a rank can use in addition.
double free_cores(const Evidence& evidence, std::size_t rank) {
  const RankCosts& costs = evidence.job.ranks[rank];
  const auto on_node = static_cast<double>(std::ranges::count_if(
      evidence.job.ranks, [&](const RankCosts& other) { return other.node == costs.node; }));
  const double used =
      costs.process.seconds > 0 ? costs.process.cpu_seconds / costs.process.seconds : 0;
  return std::max(0.0, std::min(costs.process.idle_cores / on_node, costs.process.cores - used));
}

// The time for which training would wait with more workers.
double waited_with(const Evidence& evidence, const SlowLoader& loader, std::size_t workers) {
  const double rest = evidence.step_ms - loader.waited_ms;
  return std::max(0.0, loader.batch_ms(workers) - rest);
}

// The fewest workers that load as fast as training computes.
std::size_t enough_workers(const Evidence& evidence, const SlowLoader& loader) {
  const double rest = kLoaderMargin * (evidence.step_ms - loader.waited_ms);
  std::size_t workers = std::max<std::size_t>(1, loader.costs.workers);
  while (workers < kMostWorkers && loader.batch_ms(workers) > rest) ++workers;
  return workers;
}

// Whether the cores suffice for decoding as many batches as training would take then.
bool has_cores(const Evidence& evidence, const SlowLoader& loader, std::size_t workers) {
  const double shorter =
      evidence.step_ms - loader.waited_ms + waited_with(evidence, loader, workers);
  if (shorter <= 0) return false;
  const double more = loader.costs.reading_cpu_ms * (1 / shorter - 1 / evidence.step_ms);
  return more <= free_cores(evidence, loader.rank) + 0.1;
}

std::string evidence_of(const Evidence& evidence, const SlowLoader& loader, bool reads) {
  const LoaderCosts& costs = loader.costs;
  const std::string how =
      costs.workers == 0
          ? "on the training thread"
          : fmt::format("on {} of {}", threads(costs.workers),
                        format_count(static_cast<std::size_t>(std::max(
                                         1.0, evidence.job.ranks[loader.rank].process.cores)),
                                     "core"));
  const std::string what =
      reads ? fmt::format(
                  "reading a batch takes {:.3g} ms {}, of which {:.0f} % is waiting for "
                  "files",
                  costs.reading_ms, how, 100 * (1 - costs.reading_cpu_ms / costs.reading_ms))
            : fmt::format("decoding a batch takes {:.3g} ms {}", costs.reading_ms, how);
  return fmt::format(
      "data wait is {:.0f} % of the step{}: {}", 100 * evidence.share(loader.waited_ms),
      evidence.job.ranks.size() > 1 ? fmt::format(" on rank {}", loader.rank) : "", what);
}

}  // namespace

std::vector<Recommendation> data_causes(const Evidence& evidence) {
  const SlowLoader loader = slowest_loader(evidence);
  const double all = regained_by(evidence, 0, loader.waited_ms);
  if (!evidence.is_worth(all)) return {};
  const bool is_busy =
      loader.costs.workers == 0 || loader.batch_ms_now() >= kBusyLoader * evidence.step_ms;
  if (!is_busy)
    return {{.cause = Cause::kDataBursts,
             .evidence = fmt::format(
                 "{}, which is fast enough on average: some batches take much longer than others",
                 evidence_of(evidence, loader, loader.reads())),
             .remedy = "a larger --prefetch",
             .regained_ms = all}};
  Recommendation result{.cause = loader.reads() ? Cause::kSlowReader : Cause::kSlowDecode,
                        .evidence = evidence_of(evidence, loader, loader.reads())};
  const std::size_t workers = enough_workers(evidence, loader);
  if (loader.reads() || has_cores(evidence, loader, workers)) {
    result.remedy = workers <= 2 ? fmt::format("--workers {}", workers)
                                 : fmt::format("--workers {} --prefetch {}", workers, workers + 1);
    result.regained_ms =
        regained_by(evidence, waited_with(evidence, loader, workers), loader.waited_ms);
  } else {
    result.evidence +=
        fmt::format(", and {:.1f} cores are free", free_cores(evidence, loader.rank));
    result.remedy = "samples that are cheaper to decode (smaller images, less augmentation)";
    result.regained_ms = all;
  }
  if (!evidence.is_worth(result.regained_ms)) return {};
  return {result};
}

}  // namespace horo::ops

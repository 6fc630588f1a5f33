#include "ops/train/bottleneck/report_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "horo/base/text/quantity.h"

namespace horo::ops {
namespace {

constexpr std::size_t kMostRanks = 8;

struct Column {
  const char* name;
  StepPhase phase;
};

constexpr Column kBefore[] = {{"data", StepPhase::kDataWait},
                              {"transfer", StepPhase::kTransfer},
                              {"forward", StepPhase::kForward},
                              {"backward", StepPhase::kBackward},
                              {"exposed", StepPhase::kExposedCommunication}};
constexpr Column kAfter[] = {{"optimizer", StepPhase::kOptimizer},
                             {"logging", StepPhase::kLogging},
                             {"checkpoint", StepPhase::kCheckpoint}};

// The ranks with the least straggler wait take the most time of their own.
std::vector<std::size_t> shown_ranks(const Diagnosis& diagnosis) {
  std::vector<std::size_t> ranks(diagnosis.ranks.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  if (ranks.size() <= kMostRanks) return ranks;
  std::ranges::stable_sort(
      ranks, {}, [&](std::size_t rank) { return diagnosis.ranks[rank].straggler_wait_ms; });
  ranks.resize(kMostRanks);
  std::ranges::sort(ranks);
  return ranks;
}

std::string table(const JobCosts& job, const Diagnosis& diagnosis) {
  std::string text = "  rank";
  for (const Column& column : kBefore) text += fmt::format("{:>10}", column.name);
  text += fmt::format("{:>10}", "straggler");
  for (const Column& column : kAfter) text += fmt::format("{:>11}", column.name);
  text += "       CPU\n";
  const auto cell = [](double milliseconds, int width) {
    return fmt::format("{:>{}}", fmt::format("{:.2f}", milliseconds), width);
  };
  for (const std::size_t rank : shown_ranks(diagnosis)) {
    const RankDiagnosis& costs = diagnosis.ranks[rank];
    const ProcessCosts& process = job.ranks[rank].process;
    text += fmt::format("{:>6}", rank);
    for (const Column& column : kBefore) text += cell(costs.phases[column.phase], 10);
    text += cell(costs.straggler_wait_ms, 10);
    for (const Column& column : kAfter) text += cell(costs.phases[column.phase], 11);
    const double cpu = process.seconds > 0 ? 100 * process.cpu_seconds / process.seconds : 0;
    text += fmt::format("{:>8.0f} %", cpu);
    if (const auto& busy = job.ranks[rank].device_busy)
      text += fmt::format("  device {:.0f} %", 100 * *busy);
    text += '\n';
  }
  return text;
}

std::string rate(double bytes, double milliseconds) {
  return fmt::format("{:.3g}", milliseconds > 0 ? bytes / milliseconds / 1e6 : 0);
}

std::string bandwidths(const JobCosts& job, const Diagnosis& diagnosis) {
  double least = job.ranks[0].memory_bandwidth;
  for (const RankCosts& rank : job.ranks) least = std::min(least, rank.memory_bandwidth);
  std::string text;
  if (const auto& communication = job.communication) {
    const ExchangeCosts& exchange = communication->exchange;
    const double ranks = static_cast<double>(job.ranks.size());
    text += fmt::format(
        "  exchange: {} in {} bucket{}, {:.3g} ms without computation: {} of {:.3g} GB/s that one "
        "buffer reaches\n",
        format_bytes(static_cast<std::size_t>(exchange.bytes)), exchange.buckets,
        exchange.buckets == 1 ? "" : "s", exchange.milliseconds,
        rate(exchange.bytes * 2 * (ranks - 1) / ranks, exchange.milliseconds),
        communication->bandwidth / 1e9);
  }
  if (job.update_bytes > 0 && !job.is_on_device)
    text += fmt::format("  memory: the optimizer moves {} of {:.3g} GB/s that a copy reaches\n",
                        rate(job.update_bytes, diagnosis.ranks[0].phases[StepPhase::kOptimizer]),
                        least / 1e9);
  return text;
}

std::string model_text(const ScalingModel& model) {
  std::string text = fmt::format(
      "  model: max(compute {:.3g} ms, communication {:.3g} ms) + rest {:.3g} ms = {:.3g} ms\n  "
      "more ranks with as many samples each:",
      model.compute_ms, model.communication_ms, model.rest_ms, model.step_ms());
  for (const ScalingPrediction& prediction : model.predictions)
    text += fmt::format(" {} ranks {:.3g} ms ({:.0f} %){}", prediction.ranks, prediction.step_ms,
                        100 * prediction.efficiency,
                        &prediction == &model.predictions.back() ? "\n" : ",");
  if (model.hiding_batch)
    text +=
        fmt::format("  computation takes as long as communication from a global batch of {} on\n",
                    *model.hiding_batch);
  return text;
}

}  // namespace

std::string report_text(const JobCosts& job, const Diagnosis& diagnosis) {
  if (diagnosis.steps == 0) return "bottleneck report: no step was measured\n";
  std::string text =
      fmt::format("bottleneck report: {:.3g} ms per step over {}; {}\n", diagnosis.step_ms,
                  format_count(diagnosis.steps, "step"), diagnosis.summary);
  text += table(job, diagnosis);
  text += bandwidths(job, diagnosis);
  if (diagnosis.model) text += model_text(*diagnosis.model);
  int number = 0;
  for (const Recommendation& one : diagnosis.recommendations)
    text += fmt::format("  {}. {}\n", ++number, one.sentence());
  return text;
}

}  // namespace horo::ops

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

bool has_devices(const JobCosts& job) {
  return std::ranges::any_of(job.ranks,
                             [](const RankCosts& rank) { return rank.device.has_value(); });
}

std::string table(const JobCosts& job, const Diagnosis& diagnosis) {
  std::string text = "  rank";
  for (const Column& column : kBefore) text += fmt::format("{:>10}", column.name);
  text += fmt::format("{:>10}", "straggler");
  for (const Column& column : kAfter) text += fmt::format("{:>11}", column.name);
  text += has_devices(job) ? "       CPU    device\n" : "       CPU\n";
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
    if (const auto& device = job.ranks[rank].device)
      text += fmt::format("{:>8.0f} %", 100 * device->busy);
    text += '\n';
  }
  return text;
}

std::string rate(double bytes, double milliseconds) {
  return fmt::format("{:.3g}", milliseconds > 0 ? bytes / milliseconds / 1e6 : 0);
}

std::string exchange_text(const JobCosts& job, const CommunicationCosts& communication) {
  const ExchangeCosts& exchange = communication.exchange;
  const double ranks = static_cast<double>(job.ranks.size());
  // A reduce-scatter sends half of the bytes of an allreduce.
  const double factor = (job.is_sharded ? 1 : 2) * (ranks - 1) / ranks;
  std::string text =
      fmt::format("  {}: {} in {} bucket{}, {:.3g} ms without computation: {} GB/s",
                  job.is_sharded ? "reduce-scatter" : "exchange",
                  format_bytes(static_cast<std::size_t>(exchange.bytes)), exchange.buckets,
                  exchange.buckets == 1 ? "" : "s", exchange.milliseconds,
                  rate(exchange.bytes * factor, exchange.milliseconds));
  if (communication.bandwidth > 0)
    text += fmt::format(" of {:.3g} GB/s that one buffer reaches", communication.bandwidth / 1e9);
  return text + '\n';
}

std::string device_memory(const JobCosts& job) {
  const RankCosts* most = nullptr;
  const auto used = [](const RankCosts& rank) {
    return rank.device ? rank.device->memory_used : 0;
  };
  for (const RankCosts& rank : job.ranks)
    if (used(rank) > 0 && (most == nullptr || used(rank) > used(*most))) most = &rank;
  if (most == nullptr) return {};
  return fmt::format("  device memory: at most {} of {} in use, on rank {}\n",
                     format_bytes(used(*most)), format_bytes(most->device->memory_total),
                     most->rank);
}

std::string bandwidths(const JobCosts& job, const Diagnosis& diagnosis) {
  double least = job.ranks[0].memory_bandwidth;
  for (const RankCosts& rank : job.ranks) least = std::min(least, rank.memory_bandwidth);
  std::string text;
  if (job.communication) text += exchange_text(job, *job.communication);
  if (job.update_bytes > 0 && !job.is_on_device && !job.is_sharded)
    text += fmt::format("  memory: the optimizer moves {} of {:.3g} GB/s that a copy reaches\n",
                        rate(job.update_bytes, diagnosis.ranks[0].phases[StepPhase::kOptimizer]),
                        least / 1e9);
  return text + device_memory(job);
}

std::string model_text(const ScalingModel& model) {
  std::string text = fmt::format(
      "  model: {} = {:.3g} ms\n  more ranks with as many samples each{}:", describe(model),
      model.step_ms(), model.is_lower_bound ? ", at least" : "");
  for (const ScalingPrediction& prediction : model.predictions)
    text += fmt::format(" {} ranks {:.3g} ms ({:.0f} %){}", prediction.ranks, prediction.step_ms,
                        100 * prediction.efficiency,
                        &prediction == &model.predictions.back() ? "\n" : ",");
  if (model.hiding_batch) text += "  " + describe_hiding(model) + '\n';
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
  if (diagnosis.model)
    text += model_text(*diagnosis.model);
  else
    text += fmt::format("  no model for more ranks: {}\n", diagnosis.no_model);
  for (const std::string& note : diagnosis.notes) text += fmt::format("  {}\n", note);
  int number = 0;
  for (const Recommendation& one : diagnosis.recommendations)
    text += fmt::format("  {}. {}\n", ++number, one.sentence());
  return text;
}

}  // namespace horo::ops

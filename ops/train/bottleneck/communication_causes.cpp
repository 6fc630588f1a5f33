#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "horo/base/text/quantity.h"
#include "ops/train/bottleneck/causes.h"

namespace horo::ops {
namespace {

// Work that does not depend on the batch may take this share of a step.
constexpr double kFixedShare = 0.25;
constexpr int kLargestFactor = 64;
// Local steps may expose this part of the time of a step.
constexpr double kLargestExposedShare = 0.1;

double mean_of_ranks(const Evidence& evidence, StepPhase phase) {
  double sum = 0;
  for (std::size_t rank = 0; rank < evidence.replay.rank_count(); ++rank)
    sum += evidence.replay.mean(rank)[phase];
  return sum / static_cast<double>(evidence.replay.rank_count());
}

double last_bucket_ms(const ExchangeCosts& exchange) {
  return exchange.milliseconds / static_cast<double>(std::max<std::size_t>(1, exchange.buckets));
}

// The time of a step without exposed communication.
double own_ms(const Evidence& evidence) {
  return evidence.step_ms - evidence.replay.communication_ms();
}

// The part of an exchange that backward cannot hide: the last bucket, which starts when backward
// ends, and what takes longer than backward. With local steps, what steps do not hide, per step.
double exposed_of(const Evidence& evidence, const ExchangeCosts& exchange) {
  const LocalSteps& local = evidence.job.local_steps;
  if (local.count > 0) {
    ScalingModel model{.compute_ms = own_ms(evidence),
                       .communication_ms = exchange.milliseconds,
                       .local_steps = local};
    return model.exposed_ms();
  }
  const double backward = mean_of_ranks(evidence, StepPhase::kBackward);
  return std::max(last_bucket_ms(exchange), exchange.milliseconds - backward);
}

// The part of the exposed communication that the exchange explains. Scheduling of busy cores can
// make it longer.
double explained_communication(const Evidence& evidence) {
  const double exposed = evidence.replay.communication_ms();
  const auto& communication = evidence.job.communication;
  if (!communication) return exposed;
  const ExchangeCosts& exchange = communication->exchange;
  const bool is_local = evidence.job.local_steps.count > 0;
  return std::min(exposed,
                  1.5 * (is_local ? exposed_of(evidence, exchange) : exchange.milliseconds));
}

// The model relates the variant to the present exchange. The measured exposed time gives the scale.
double regained_by(const Evidence& evidence, const ExchangeVariant& variant) {
  const double now = exposed_of(evidence, evidence.job.communication->exchange);
  const double then = exposed_of(evidence, variant.costs);
  if (now <= 0 || then >= now) return 0;
  return explained_communication(evidence) * (1 - then / now);
}

std::string describe(const ExchangeCosts& exchange) {
  return fmt::format("{:.3g} ms in {} bucket{}", exchange.milliseconds, exchange.buckets,
                     exchange.buckets == 1 ? "" : "s");
}

std::string start_of(const Evidence& evidence) {
  return fmt::format("exposed communication is {:.0f} % of the step",
                     100 * evidence.share(evidence.replay.communication_ms()));
}

std::string rate(double bytes_per_second) {
  return fmt::format("{:.3g} GB/s", bytes_per_second / 1e9);
}

double bus_bandwidth(const Evidence& evidence, const ExchangeCosts& exchange) {
  const double ranks = static_cast<double>(evidence.replay.rank_count());
  return exchange.bytes * 2 * (ranks - 1) / ranks / (exchange.milliseconds / 1e3);
}

Recommendation recommend(const Evidence& evidence, const ExchangeVariant& variant) {
  const ExchangeCosts& now = evidence.job.communication->exchange;
  if (variant.kind == ExchangeVariant::Kind::kLargerBuckets)
    return {.cause = Cause::kSmallBuckets,
            .evidence = fmt::format("{}: the exchange of {} takes {}, but {}", start_of(evidence),
                                    format_bytes(static_cast<std::uint64_t>(now.bytes)),
                                    describe(now), describe(variant.costs)),
            .remedy = fmt::format("HORO_BUCKET_BYTES={}MiB", variant.bucket_bytes >> 20),
            .regained_ms = regained_by(evidence, variant)};
  return {.cause = Cause::kSlowLink,
          .evidence = fmt::format(
              "{}: the exchange of {} takes {:.3g} ms, {} of {} of the link; in 16 bits {:.3g} ms",
              start_of(evidence), format_bytes(static_cast<std::uint64_t>(now.bytes)),
              now.milliseconds, rate(bus_bandwidth(evidence, now)),
              rate(evidence.job.communication->bandwidth), variant.costs.milliseconds),
          .remedy = variant.bucket_bytes == 0
                        ? "--wire bfloat16"
                        : fmt::format("--wire bfloat16 and HORO_BUCKET_BYTES={}MiB",
                                      variant.bucket_bytes >> 20),
          .regained_ms = regained_by(evidence, variant)};
}

std::optional<Recommendation> best_variant(const Evidence& evidence, ExchangeVariant::Kind kind) {
  std::optional<Recommendation> best;
  for (const ExchangeVariant& variant : evidence.job.communication->variants) {
    if (variant.kind != kind) continue;
    Recommendation candidate = recommend(evidence, variant);
    if (evidence.is_worth(candidate.regained_ms) &&
        (!best || candidate.regained_ms > best->regained_ms))
      best = std::move(candidate);
  }
  return best;
}

// Larger buckets do not change results, so they come first. Other types must regain more.
std::vector<Recommendation> variant_causes(const Evidence& evidence) {
  if (!evidence.job.communication) return {};
  std::vector<Recommendation> causes;
  if (auto larger = best_variant(evidence, ExchangeVariant::Kind::kLargerBuckets))
    causes.push_back(*std::move(larger));
  const double regained = causes.empty() ? 0 : causes[0].regained_ms;
  auto narrow = best_variant(evidence, ExchangeVariant::Kind::kBFloat16);
  if (narrow && evidence.is_worth(narrow->regained_ms - regained))
    causes.push_back(*std::move(narrow));
  return causes;
}

// Steps with `factor` times the samples take as long for the optimizer and the exchange.
std::optional<Recommendation> larger_batch(const Evidence& evidence, double saved_communication) {
  const double optimizer = mean_of_ranks(evidence, StepPhase::kOptimizer);
  const double communication =
      std::max(0.0, explained_communication(evidence) - saved_communication);
  const double fixed = optimizer + communication;
  const double variable = evidence.step_ms - fixed - saved_communication;
  if (evidence.share(fixed) < kFixedShare) return std::nullopt;
  int factor = 2;
  while (factor < kLargestFactor && fixed > 0.1 * (fixed + factor * variable)) factor *= 2;
  return Recommendation{
      .cause = Cause::kSmallBatch,
      .evidence = fmt::format(
          "optimizer ({:.3g} ms) and exposed communication ({:.3g} ms) take {:.0f} % of the step "
          "for any batch; a rank has {:.3g} samples",
          optimizer, communication, 100 * evidence.share(fixed),
          evidence.job.ranks[0].samples_per_step),
      .remedy = fmt::format("--global-batch {}, with a learning rate that fits to it (per step of "
                            "the present batch)",
                            evidence.job.global_batch * static_cast<std::uint64_t>(factor)),
      .regained_ms = fixed * (1 - 1.0 / factor)};
}

// A whole update on every rank takes as long as the shares of all ranks together. Its allreduce
// sends as much as the reduce-scatter and the allgather, and backward hides most of it.
std::optional<Recommendation> sharded_update(const Evidence& evidence) {
  const auto& communication = evidence.job.communication;
  if (!evidence.job.is_sharded || !communication) return std::nullopt;
  const double gather = communication->gather_ms;
  const double optimizer = std::max(0.0, mean_of_ranks(evidence, StepPhase::kOptimizer) - gather);
  ExchangeCosts whole = communication->exchange;
  whole.milliseconds += gather;
  const double saved = explained_communication(evidence) + gather - exposed_of(evidence, whole);
  const auto ranks = static_cast<double>(evidence.replay.rank_count());
  const double regained = saved - (ranks - 1) * optimizer;
  if (!evidence.is_worth(regained)) return std::nullopt;
  return Recommendation{
      .cause = Cause::kShardedUpdate,
      .evidence = fmt::format("the allgather of the parameters takes {:.3g} ms after each update, "
                              "where nothing hides it; the update of a share takes {:.3g} ms",
                              gather, optimizer),
      .remedy =
          "training without --shard-optimizer, if the memory of a rank suffices for the state "
          "of the whole optimizer,",
      .regained_ms = regained};
}

// More steps between exchanges, or steps during an exchange, expose less of it.
std::optional<Recommendation> outer_exchange(const Evidence& evidence) {
  const LocalSteps& local = evidence.job.local_steps;
  if (local.count == 0 || !evidence.job.communication) return std::nullopt;
  const double exposed = explained_communication(evidence);
  if (!evidence.is_worth(exposed)) return std::nullopt;
  const double exchange = evidence.job.communication->exchange.milliseconds;
  const double own = std::max(1e-3, own_ms(evidence));
  Recommendation result{
      .cause = Cause::kOuterExchange,
      .evidence = fmt::format("{}: the exchange in {} local steps takes {:.3g} ms, and {}",
                              start_of(evidence), local.count, exchange,
                              local.overlap == 0
                                  ? std::string("no step hides it")
                                  : fmt::format("{} steps hide only a part of it", local.overlap))};
  const double steps = std::ceil(exchange / (own * static_cast<double>(local.fragments)));
  if (local.outer_momentum > 0 && steps > static_cast<double>(local.overlap) &&
      steps < static_cast<double>(local.count)) {
    result.remedy = fmt::format("--overlap {:.0f}", steps);
    result.regained_ms = exposed;
    return result;
  }
  const double fewer = std::ceil(exposed / (kLargestExposedShare * own));
  const auto count = static_cast<double>(local.count);
  result.remedy = fmt::format("--local-steps {:.0f}", count * fewer);
  result.regained_ms = exposed * (1 - 1 / fewer);
  if (!evidence.is_worth(result.regained_ms)) return std::nullopt;
  return result;
}

}  // namespace

std::vector<Recommendation> communication_causes(const Evidence& evidence) {
  std::vector<Recommendation> causes = variant_causes(evidence);
  if (auto sharded = sharded_update(evidence)) causes.push_back(*std::move(sharded));
  if (auto outer = outer_exchange(evidence)) causes.push_back(*std::move(outer));
  // All of them change results.
  if (evidence.job.local_steps.count > 0)
    std::ranges::stable_sort(causes, std::ranges::greater(), &Recommendation::regained_ms);
  const double saved = causes.empty() ? 0 : causes.back().regained_ms;
  if (auto batch = larger_batch(evidence, saved)) causes.push_back(*std::move(batch));
  return causes;
}

}  // namespace horo::ops

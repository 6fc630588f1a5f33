#include "ops/train/bottleneck/exchange_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

namespace horo::ops {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kProbeMs = 60;  // for the repetitions of one exchange
constexpr std::size_t kLeastProbe = std::size_t{64} << 10;
constexpr std::size_t kLargestProbe = std::size_t{32} << 20;
constexpr double kLargeProbeMs = 15;

// The largest value of all ranks.
double largest(Context& context, double value) {
  std::vector<double> values{value};
  context.allreduce(TensorView(values), {.name = "report.largest", .op = ReduceOp::kMax});
  return values[0];
}

double exchange_once(Context& context, GradientSync& sync) {
  context.barrier({.name = "report.barrier"});
  const auto start = Clock::now();
  sync.exchange();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The median over some exchanges, on the slowest rank. The first exchange connects the ranks.
double exchange_ms(Context& context, GradientSync& sync) {
  exchange_once(context, sync);
  const double first = largest(context, exchange_once(context, sync));
  const auto rounds = static_cast<std::size_t>(std::clamp(kProbeMs / first, 2.0, 15.0));
  std::vector<double> times;
  for (std::size_t round = 0; round < rounds; ++round)
    times.push_back(exchange_once(context, sync));
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return largest(context, times[times.size() / 2]);
}

// An allreduce of `bytes`, in ms.
double allreduce_ms(Context& context, std::size_t bytes) {
  std::vector<float> values(std::max<std::size_t>(1, bytes / sizeof(float)));
  const std::array tensors{NamedTensor{"report.values", TensorView(values)}};
  GradientSync sync(context, tensors,
                    {.name = "report.link", .bucket_bytes = bytes, .autotune = false});
  return exchange_ms(context, sync);
}

GradientSyncOptions probe_options(GradientSyncOptions options) {
  options.name = "report.exchange";
  options.autotune = false;
  options.backward_passes_per_step = 1;
  return options;
}

ExchangeCosts measure(Context& context, std::span<const NamedTensor> gradients,
                      const GradientSyncOptions& options) {
  GradientSync sync(context, gradients, options);
  double bytes = 0;
  for (const NamedTensor& gradient : gradients)
    bytes += static_cast<double>(gradient.tensor.bytes());
  return {bytes, sync.bucket_count(), exchange_ms(context, sync)};
}

double bus_factor(const Context& context) { return 2.0 * (context.size() - 1) / context.size(); }

}  // namespace

CommunicationCosts measure_communication(Context& context, std::span<const NamedTensor> gradients,
                                         const GradientSyncOptions& options) {
  CommunicationCosts costs;
  costs.exchange = measure(context, gradients, probe_options(options));
  costs.latency_ms = allreduce_ms(context, 8);
  // A buffer that takes some time, so that the latency is a small part of it.
  const double small_ms = allreduce_ms(context, kLeastProbe);
  const double scale =
      std::clamp(kLargeProbeMs / small_ms, 1.0, static_cast<double>(kLargestProbe) / kLeastProbe);
  const std::size_t bytes = static_cast<std::size_t>(scale * kLeastProbe) / 64 * 64;
  costs.bandwidth =
      static_cast<double>(bytes) * bus_factor(context) / (allreduce_ms(context, bytes) / 1e3);
  return costs;
}

std::vector<ExchangeVariant> measure_variants(Context& context,
                                              std::span<const NamedTensor> gradients,
                                              const GradientSyncOptions& options,
                                              const ExchangeCosts& present) {
  std::vector<ExchangeVariant> variants;
  const bool is_compressed = options.compression.kind != Compression::Kind::kNone;
  std::size_t buckets = present.buckets;
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{32} << 20}) {
    GradientSyncOptions larger = probe_options(options);
    larger.bucket_bytes = bytes;
    const ExchangeCosts costs = measure(context, gradients, larger);
    if (costs.buckets >= buckets) continue;
    buckets = costs.buckets;
    variants.push_back({ExchangeVariant::Kind::kLargerBuckets, bytes, costs});
  }
  if (context.node_count() > 1 && !options.wire && !is_compressed &&
      options.op != ReduceOp::kAdasum) {
    GradientSyncOptions narrow = probe_options(options);
    narrow.wire = DataType::kBFloat16;
    variants.push_back({ExchangeVariant::Kind::kBFloat16, 0, measure(context, gradients, narrow)});
  }
  return variants;
}

}  // namespace horo::ops

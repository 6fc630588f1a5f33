#include "ops/train/bottleneck/exchange_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace horo::ops {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kProbeMs = 60;          // for the repetitions of one exchange
constexpr double kSlowExchangeMs = 500;  // is measured once
constexpr double kLeastProbeBytes = 64 << 10, kLargestProbeBytes = 32 << 20;

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
  double first = largest(context, exchange_once(context, sync));
  if (first > kSlowExchangeMs) return first;
  first = largest(context, exchange_once(context, sync));
  const auto rounds = static_cast<std::size_t>(std::clamp(kProbeMs / first, 2.0, 15.0));
  std::vector<double> times;
  for (std::size_t round = 0; round < rounds; ++round)
    times.push_back(exchange_once(context, sync));
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return largest(context, times[times.size() / 2]);
}

// Memory for a buffer: an arena, as for the gradients, if ranks share a node and it has room.
std::optional<Arena> allocate_arena_for(Context& context, std::size_t bytes) {
  if (context.size() == context.node_count()) return std::nullopt;
  try {
    return context.allocate(bytes);
  } catch (const SharedMemoryError&) {  // on all ranks
    return std::nullopt;
  }
}

// An allreduce of one buffer, in ms.
double allreduce_ms(Context& context, std::size_t bytes) {
  const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float));
  const std::optional<Arena> arena = allocate_arena_for(context, count * sizeof(float));
  std::vector<float> values(arena ? 0 : count);
  float* const data = arena ? reinterpret_cast<float*>(arena->bytes().data()) : values.data();
  std::fill_n(data, count, 1.0f);
  const std::array tensors{NamedTensor{"report.values", TensorView(data, Shape{count})}};
  GradientSync sync(
      context, tensors,
      {.name = "report.link", .bucket_bytes = count * sizeof(float), .autotune = false});
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
  // One buffer of the same size, or a part of it if the link is slow.
  const double part = std::min(1.0, kProbeMs / costs.exchange.milliseconds);
  const auto bytes = static_cast<std::size_t>(
      std::clamp(part * costs.exchange.bytes, kLeastProbeBytes, kLargestProbeBytes));
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
    if (!variants.empty()) narrow.bucket_bytes = variants.back().bucket_bytes;
    variants.push_back({ExchangeVariant::Kind::kBFloat16, narrow.bucket_bytes.value_or(0),
                        measure(context, gradients, narrow)});
  }
  return variants;
}

}  // namespace horo::ops

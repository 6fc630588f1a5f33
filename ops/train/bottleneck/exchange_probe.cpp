#include "ops/train/bottleneck/exchange_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
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

template <typename Exchange>
double time_of(Context& context, const Exchange& exchange) {
  context.barrier({.name = "report.barrier"});
  const auto start = Clock::now();
  exchange();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The median over some exchanges, on the slowest rank. The first exchange connects the ranks.
template <typename Exchange>
double median_ms(Context& context, const Exchange& exchange) {
  double first = largest(context, time_of(context, exchange));
  if (first > kSlowExchangeMs) return first;
  first = largest(context, time_of(context, exchange));
  const auto rounds = static_cast<std::size_t>(std::clamp(kProbeMs / first, 2.0, 15.0));
  std::vector<double> times;
  for (std::size_t round = 0; round < rounds; ++round) times.push_back(time_of(context, exchange));
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return largest(context, times[times.size() / 2]);
}

double exchange_ms(Context& context, GradientSync& sync) {
  return median_ms(context, [&] { sync.exchange(); });
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

double bytes_of(std::span<const NamedTensor> tensors) {
  double bytes = 0;
  for (const NamedTensor& one : tensors) bytes += static_cast<double>(one.tensor.bytes());
  return bytes;
}

ExchangeCosts measure(Context& context, const TensorGroups& groups,
                      const GradientSyncOptions& options) {
  ExchangeCosts costs;
  for (const auto& group : groups) {
    GradientSync sync(context, group, options);
    costs.bytes += bytes_of(group);
    costs.buckets += sync.bucket_count();
    costs.milliseconds += exchange_ms(context, sync);
  }
  return costs;
}

double bus_factor(const Context& context) { return 2.0 * (context.size() - 1) / context.size(); }

// Of one buffer of the same size as the exchange, or a part of it if the link is slow.
void measure_link(Context& context, CommunicationCosts& costs) {
  costs.latency_ms = allreduce_ms(context, 8);
  const double part = std::min(1.0, kProbeMs / costs.exchange.milliseconds);
  const auto bytes = static_cast<std::size_t>(
      std::clamp(part * costs.exchange.bytes, kLeastProbeBytes, kLargestProbeBytes));
  costs.bandwidth =
      static_cast<double>(bytes) * bus_factor(context) / (allreduce_ms(context, bytes) / 1e3);
}

/// A bucket of a sharded optimizer.
struct ShardedBucket {
  std::string name;
  std::vector<float> whole, own;  // own: the rows of this rank
  Handle operation{};
};

}  // namespace

CommunicationCosts measure_communication(Context& context, const TensorGroups& groups,
                                         const GradientSyncOptions& options) {
  CommunicationCosts costs;
  costs.exchange = measure(context, groups, probe_options(options));
  measure_link(context, costs);
  return costs;
}

CommunicationCosts measure_sharded(Context& context, std::span<const std::size_t> bucket_elements) {
  std::vector<ShardedBucket> buckets;
  CommunicationCosts costs{.exchange = {.buckets = bucket_elements.size()}};
  for (const std::size_t elements : bucket_elements) {
    buckets.push_back({.name = fmt::format("report.shard.{}", buckets.size()),
                       .whole = std::vector<float>(elements, 1.0f),
                       .own = std::vector<float>(context.shard_rows(elements), 1.0f)});
    costs.exchange.bytes += static_cast<double>(elements * sizeof(float));
  }
  costs.exchange.milliseconds = median_ms(context, [&] {
    for (ShardedBucket& bucket : buckets)
      bucket.operation = context.reduce_scatter_async(
          TensorView(bucket.whole), TensorView(bucket.own), {.name = bucket.name + ".gradients"});
    for (const ShardedBucket& bucket : buckets) bucket.operation.wait();
  });
  costs.gather_ms = median_ms(context, [&] {
    for (ShardedBucket& bucket : buckets)
      bucket.operation = context.allgather_async(TensorView(bucket.own), TensorView(bucket.whole),
                                                 {.name = bucket.name + ".values"});
    for (const ShardedBucket& bucket : buckets) bucket.operation.wait();
  });
  measure_link(context, costs);
  return costs;
}

CommunicationCosts measure_on_device(Context& context, GradientSync& sync,
                                     std::span<const NamedTensor> gradients, device::Stream& stream,
                                     std::size_t passes) {
  stream.synchronize();
  CommunicationCosts costs{
      .exchange = {.bytes = bytes_of(gradients), .buckets = sync.bucket_count()}};
  costs.exchange.milliseconds = median_ms(context, [&] {
    for (std::size_t pass = 0; pass < passes; ++pass) sync.exchange(stream.native());
    stream.synchronize();
  });
  sync.check();
  return costs;
}

std::vector<ExchangeVariant> measure_variants(Context& context, const TensorGroups& groups,
                                              const GradientSyncOptions& options,
                                              const ExchangeCosts& present) {
  std::vector<ExchangeVariant> variants;
  const bool is_compressed = options.compression.kind != Compression::Kind::kNone;
  std::size_t buckets = present.buckets;
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{32} << 20}) {
    GradientSyncOptions larger = probe_options(options);
    larger.bucket_bytes = bytes;
    const ExchangeCosts costs = measure(context, groups, larger);
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
                        measure(context, groups, narrow)});
  }
  return variants;
}

}  // namespace horo::ops

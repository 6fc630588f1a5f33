#include "horo/plan/tuning/plan_axes.h"

#include <algorithm>
#include <string_view>

#include "collectives/communicator.h"
#include "horo/device/host/host_device.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/gradients/gradient_checks.h"

namespace horo::plan {
namespace {

constexpr std::string_view kHierarchical = "hierarchical";
constexpr std::string_view kWireBits = "wire_bits";
constexpr std::string_view kBucketBytes = "bucket_bytes";
constexpr std::string_view kChunkBytes = "chunk_bytes";
constexpr std::string_view kNcclMaxCtas = "nccl_max_ctas";
constexpr std::string_view kRingSegmentBytes = "ring_segment_bytes";
constexpr std::size_t kLeastSegment = 4096;

// The range of an axis. The values are the start value multiplied by the powers of two from 2^-down
// to 2^up. A value below the start value is omitted if it is less than `least`, and is otherwise
// rounded down to a multiple of `multiple_of`.
struct Reach {
  int down = 0;
  int up = 0;
  std::size_t least = 1;
  std::size_t multiple_of = 1;
};

// Returns the values in ascending order. Stops where a shift would lose bits.
std::vector<std::size_t> powers_of_two(std::size_t start, const Reach& reach) {
  std::vector<std::size_t> values;
  for (int shift = reach.down; shift > 0; --shift)
    if (start >> shift >= reach.least)
      values.push_back((start >> shift) / reach.multiple_of * reach.multiple_of);
  for (int shift = 0; shift <= reach.up && start << shift >> shift == start; ++shift)
    values.push_back(start << shift);
  return values;
}

// Keeps one value of each run of values with the same effect. This is the start value if the run
// contains the start value, and otherwise the smallest value of the run.
template <typename Effect>
Axis axis_around(std::size_t start, std::string_view name, const Reach& reach,
                 const Effect& effect) {
  Axis axis{.name = std::string(name), .values = {}, .start = 0};
  for (const std::size_t value : powers_of_two(start, reach)) {
    const bool is_another = axis.values.empty() || effect(axis.values.back()) != effect(value);
    if (is_another)
      axis.values.push_back(value);
    else if (value == start)
      axis.values.back() = value;
    if (value == start) axis.start = axis.values.size() - 1;
  }
  return axis;
}

// Whether allreduces of this job can use ring_segment_bytes, in a ring or in transfers to parameter
// servers.
bool goes_round_a_ring(Algorithm algorithm, const Settings& settings, const Topology& topology) {
  if (algorithm == Algorithm::kParameterServer) return true;
  const bool has_rings = algorithm == Algorithm::kRing ||
                         (algorithm == Algorithm::kHierarchical && topology.node_count > 1);
  return has_rings && (settings.allreduce == MessageAllreduce::kAuto ||
                       settings.allreduce == MessageAllreduce::kRing);
}

// The wire type applies only to rings and only to float32 values. It is not tuned on a single node.
bool may_narrow(std::span<const NamedTensor> gradients, const GradientSyncOptions& options,
                Algorithm algorithm, const Topology& topology) {
  return options.tune_wire && topology.node_count > 1 &&
         (algorithm == Algorithm::kRing || algorithm == Algorithm::kHierarchical) &&
         std::ranges::any_of(gradients, [](const NamedTensor& gradient) {
           return gradient.tensor.type() == DataType::kFloat32;
         });
}

}  // namespace

PlanChoice untuned(const GradientSyncOptions& options, const Settings& settings) {
  return {.bucket_bytes = options.bucket_bytes.value_or(settings.bucket_bytes),
          .ring_segment_bytes = settings.ring_segment_bytes,
          .algorithm = settings.algorithm,
          .wire = options.wire,
          .chunk_bytes = options.chunk_bytes,
          .nccl_max_ctas = settings.nccl_max_ctas};
}

namespace {

std::size_t bytes_of(std::span<const NamedTensor> gradients) {
  std::size_t bytes = 0;
  for (const NamedTensor& gradient : gradients) bytes += gradient.tensor.bytes();
  return bytes;
}

Axis bucket_axis(std::span<const NamedTensor> gradients, const GradientSyncOptions& options,
                 const PlanChoice& start) {
  return axis_around(
      start.bucket_bytes, kBucketBytes, {.down = 4, .up = 4}, [&](std::size_t bytes) {
        return make_bucket_plan(gradients, {bytes, options.first_bucket_bytes}).buckets;
      });
}

Axis ctas_axis(std::size_t start) {
  Axis axis{.name = std::string(kNcclMaxCtas), .values = {0, 4, 8, 16, 32}, .start = 0};
  const auto place = std::ranges::lower_bound(axis.values, start);
  axis.start = static_cast<std::size_t>(place - axis.values.begin());
  if (place == axis.values.end() || *place != start) axis.values.insert(place, start);
  return axis;
}

// The algorithm between nodes and the wire type are not tuned in device memory. A connection by
// nodes makes channels of the transport, which only a named operation may do, so it is not made
// again.
std::vector<Axis> device_axes(std::span<const NamedTensor> gradients,
                              const GradientSyncOptions& options, const Topology& topology,
                              const PlanChoice& start) {
  const std::size_t all_bytes = bytes_of(gradients);
  std::vector<Axis> axes = {
      bucket_axis(gradients, options, start),
      axis_around(start.chunk_bytes, kChunkBytes, {.down = 3, .up = 3},
                  [&](std::size_t bytes) { return std::min(bytes, all_bytes); })};
  const bool connects_nodes =
      start.algorithm == Algorithm::kHierarchical && topology.node_count > 1;
  if (!device::is_host(*device_of(gradients)) && !connects_nodes)
    axes.push_back(ctas_axis(start.nccl_max_ctas));
  return axes;
}

// In host memory.
std::vector<Axis> host_axes(std::span<const NamedTensor> gradients,
                            const GradientSyncOptions& options, const Settings& settings,
                            const Topology& topology, const PlanChoice& start) {
  const Algorithm algorithm = collectives::select_algorithm(topology, settings.algorithm);
  std::vector<Axis> axes;
  if (settings.algorithm == Algorithm::kAuto && algorithm == Algorithm::kHierarchical)
    axes.push_back({.name = std::string(kHierarchical), .values = {1, 0}, .start = 0});
  if (may_narrow(gradients, options, algorithm, topology))
    axes.push_back({.name = std::string(kWireBits), .values = {32, 16}, .start = 0});
  if (options.compression.kind == Compression::Kind::kNone)
    axes.push_back(bucket_axis(gradients, options, start));
  if (goes_round_a_ring(algorithm, settings, topology)) {
    const std::size_t at_a_time = bytes_of(gradients) / static_cast<std::size_t>(topology.size);
    axes.push_back(axis_around(start.ring_segment_bytes, kRingSegmentBytes,
                               {.down = 3, .up = 2, .least = kLeastSegment, .multiple_of = 64},
                               [&](std::size_t bytes) { return std::min(bytes, at_a_time); }));
  }
  return axes;
}

}  // namespace

// The search tries the axes in this order, because it may reach its limit of steps before the last
// axis. The tuning file contains the axes by name, in this order.
std::vector<Axis> plan_axes(std::span<const NamedTensor> gradients,
                            const GradientSyncOptions& options, const Settings& settings,
                            const Topology& topology) {
  if (topology.size == 1) return {};
  const PlanChoice start = untuned(options, settings);
  std::vector<Axis> axes = device_of(gradients) == nullptr
                               ? host_axes(gradients, options, settings, topology, start)
                               : device_axes(gradients, options, topology, start);
  std::erase_if(axes, [](const Axis& axis) { return axis.values.size() < 2; });
  return axes;
}

bool has_algorithms(std::span<const Axis> axes) {
  return std::ranges::any_of(axes, [](const Axis& axis) { return axis.name == kHierarchical; });
}

PlanChoice with_values(const PlanChoice& start, const GradientSyncOptions& options,
                       std::span<const Axis> axes, const Choice& choice) {
  PlanChoice result = start;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::size_t value = axes[a].values[choice[a]];
    if (axes[a].name == kHierarchical)
      result.algorithm = value == 1 ? start.algorithm : Algorithm::kRing;
    else if (axes[a].name == kWireBits)
      result.wire = value == 16 ? options.tune_wire : start.wire;
    else if (axes[a].name == kBucketBytes)
      result.bucket_bytes = value;
    else if (axes[a].name == kChunkBytes)
      result.chunk_bytes = value;
    else if (axes[a].name == kNcclMaxCtas)
      result.nccl_max_ctas = value;
    else if (axes[a].name == kRingSegmentBytes)
      result.ring_segment_bytes = value;
  }
  return result;
}

}  // namespace horo::plan

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/plan/tuning/tuning_search.h"

namespace horo::plan {

/// The values of the parameters of a plan that can be tuned. They are equal on all ranks.
struct PlanChoice {
  std::size_t bucket_bytes = 0;
  std::size_t ring_segment_bytes = 0;
  Algorithm algorithm = Algorithm::kAuto;
  std::optional<DataType> wire = std::nullopt;
  // In device memory.
  std::size_t chunk_bytes = 0;
  std::size_t nccl_max_ctas = 0;  ///< 0: NCCL decides
};

/// Returns the parameters of a plan without tuning. `bucket_bytes` comes from the options or, if
/// unset there, from the settings. `wire` comes from the options, and the others come from the
/// settings.
PlanChoice untuned(const GradientSyncOptions& options, const Settings& settings);

/// Returns the parameters that can be tuned for these gradients in this job, in the order of the
/// expected gain. Omits a parameter that has only one value. The first two parameters are omitted
/// in device memory. The parameters are:
///
///     hierarchical        1 is the hierarchical algorithm, 0 is one ring of all ranks. Only if
///                         HORO_ALGORITHM is auto and the job has several nodes, of which at least
///                         one has several ranks.
///     wire_bits           32 or 16. Only with options.tune_wire, on several nodes, with a float32
///                         gradient and a ring or hierarchical algorithm.
///     bucket_bytes        The start value times powers of two. If adjacent values result in the
///                         same buckets, only one of them is tried. Not with compression, because
///                         residuals belong to buckets.
///     chunk_bytes         In device memory: the start value times powers of two. If several values
///                         are at least the bytes of all gradients, only one of them is tried.
///     nccl_max_ctas       On GPUs that are all connected with each other: the start value, 0, 4,
///                         8, 16 and 32. Each change connects the GPUs again.
///     ring_segment_bytes  The start value times powers of two. If several values are at least the
///                         bytes of all gradients divided by the number of ranks, only one of them
///                         is tried. In host memory, if allreduces can use a ring or parameter
///                         servers.
///
/// The result is empty if there is nothing to tune. It is equal on all ranks, because it depends
/// only on the parts of `topology` that are equal on all ranks. Pure.
std::vector<Axis> plan_axes(std::span<const NamedTensor> gradients,
                            const GradientSyncOptions& options, const Settings& settings,
                            const Topology& topology);

/// Returns whether one of `axes` selects the algorithm.
bool has_algorithms(std::span<const Axis> axes);

/// Returns `start`, changed to the values that `choice` selects on `axes`.
PlanChoice with_values(const PlanChoice& start, const GradientSyncOptions& options,
                       std::span<const Axis> axes, const Choice& choice);

}  // namespace horo::plan

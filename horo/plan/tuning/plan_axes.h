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

/// The tunable parameters of a plan; the same on all ranks.
struct PlanChoice {
  std::size_t bucket_bytes = 0;
  std::size_t ring_segment_bytes = 0;
  Algorithm algorithm = Algorithm::kAuto;
  std::optional<DataType> wire = std::nullopt;
};

/// The parameters of a plan without tuning: its options, or the settings if an option is unset.
PlanChoice untuned(const GradientSyncOptions& options, const Settings& settings);

/// The parameters that can be tuned for these gradients in this job, each with every value that has
/// a different effect. Empty if there is nothing to tune. In the order of the expected gain:
///
///     hierarchical        1, 0: hierarchical, or one ring of all ranks. If several nodes have
///                         several ranks each.
///     wire_bits           32, 16. Only with options.tune_wire, on several nodes.
///     bucket_bytes        the start value times powers of two. Values that result in the same
///                         buckets count as one. Not with compression, whose residuals belong to
///                         buckets.
///     ring_segment_bytes  the start value times powers of two. Values of at least the gradients'
///                         bytes divided by the number of ranks count as one. If allreduces use a
///                         ring.
///
/// Pure. Returns the same on all ranks whose arguments are equal except topology.rank.
std::vector<Axis> plan_axes(std::span<const NamedTensor> gradients,
                            const GradientSyncOptions& options, const Settings& settings,
                            const Topology& topology);

/// Whether one of `axes` is the algorithm.
bool has_algorithms(std::span<const Axis> axes);

/// Returns `start` with the values of `choice` on `axes`.
PlanChoice with_values(const PlanChoice& start, const GradientSyncOptions& options,
                       std::span<const Axis> axes, const Choice& choice);

}  // namespace horo::plan

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/gradient_sync_options.h"
#include "horo/tuning/tuning_search.h"

namespace horo::tuning {

/// How a plan packs its gradients and sends its buckets; the same on all ranks.
struct PlanChoice {
  std::size_t bucket_bytes = 0;
  std::size_t ring_segment_bytes = 0;
  Algorithm algorithm = Algorithm::kAuto;
  std::optional<DataType> wire = std::nullopt;
};

/// What an untuned plan takes: its options, and the settings where they say nothing.
PlanChoice untuned(const GradientSyncOptions& options, const Settings& settings);

/// What can be tuned for these gradients on this shape of job, and every value that makes a
/// difference; empty where nothing does. In the order in which it pays to try:
///
///     hierarchical        1, 0        of several nodes that hold several ranks: or one ring of all
///     wire_bits           32, 16      only with options.tune_wire, on several nodes
///     bucket_bytes        powers of two times the start's; values that pack alike count once;
///                         not with compression, whose residuals belong to buckets
///     ring_segment_bytes  powers of two times the start's, up to what a rank sends at a time;
///     where
///                         allreduces go round a ring
///
/// Pure, and equal on ranks that have the same arguments but for topology.rank.
std::vector<Axis> plan_axes(std::span<const NamedTensor> gradients,
                            const GradientSyncOptions& options, const Settings& settings,
                            const Topology& topology);

/// Whether `axes` have choices of another algorithm than the start's.
bool has_algorithms(std::span<const Axis> axes);

/// `start` with the values that `choice` has on `axes`.
PlanChoice with_values(const PlanChoice& start, const GradientSyncOptions& options,
                       std::span<const Axis> axes, const Choice& choice);

}  // namespace horo::tuning

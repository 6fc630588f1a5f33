#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/flight_recorder/plan_flight.h"

namespace horo::plan {

/// The limits for the sizes of the buckets of a plan, in bytes.
struct BucketLimits {
  std::size_t bytes = 0;
  std::optional<std::size_t> first_bytes = {};  ///< limit of the first bucket; `bytes` if unset
};

/// The buckets of a plan, in the order in which they are exchanged. The gradients of a bucket are
/// exchanged together.
struct BucketPlan {
  /// buckets[b] lists the indices of the gradients in bucket b, in the order of packing.
  std::vector<std::vector<std::size_t>> buckets;
  /// bucket_of[i] is the index of the bucket that contains gradient i.
  std::vector<std::size_t> bucket_of;
  BucketLimits limits;
};

/// Packs gradients from the last to the first, because backward usually produces them in this
/// order. All gradients of a bucket have the same element type. A bucket exceeds its limit only if
/// it consists of a single gradient that is larger than the limit. Every gradient is in exactly one
/// bucket, and no bucket is empty. Pure.
BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients, const BucketLimits& limits);
/// Packs the gradients in `order`, which must be a permutation of their indices.
BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients,
                            std::span<const std::size_t> order, const BucketLimits& limits);

/// The order in which the gradients of a plan were packed.
std::vector<std::size_t> packing_order(const BucketPlan& plan);

/// Returns the description of a plan for the flight recorder. `process_set` is empty for a plan of
/// all ranks of the job. `gradients` must not be empty.
observe::PlanDescription describe_to_recorder(const std::string& name,
                                              const std::string& process_set,
                                              std::span<const NamedTensor> gradients,
                                              const BucketPlan& plan, ReduceOp op);

}  // namespace horo::plan

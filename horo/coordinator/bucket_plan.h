#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/request.h"

namespace horo::coordinator {

/// Which gradients are exchanged together and in which order.
struct BucketPlan {
  /// buckets[b]: indices of gradients, in the order in which they lie in the bucket.
  std::vector<std::vector<std::size_t>> buckets;
  /// bucket_of[i]: the bucket of gradient i.
  std::vector<std::size_t> bucket_of;
};

/// Packs gradients from the last to the first (the order in which backward produces them) into
/// buckets of one element type and at most `bucket_bytes`, the first of at most
/// `first_bucket_bytes`; a larger gradient has a bucket of its own. Every gradient is in exactly
/// one bucket, and every bucket but those cut by a change of type or a large gradient is as full as
/// the order allows.
BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients, std::size_t bucket_bytes,
                            std::optional<std::size_t> first_bucket_bytes = {});
/// The same, in the order given: a permutation of the gradients' indices.
BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients,
                            std::span<const std::size_t> order, std::size_t bucket_bytes,
                            std::optional<std::size_t> first_bucket_bytes);

/// The order in which the gradients of a plan were packed.
std::vector<std::size_t> packing_order(const BucketPlan& plan);

/// What ranks compare before they use a plan: one request per gradient, then (kTask) one for the
/// settings, one for each of `options` (equally many on all ranks) and one for each option of
/// compression.
std::vector<Request> describe_plan(std::span<const NamedTensor> gradients, ReduceOp op,
                                   std::size_t bucket_bytes, std::optional<DataType> wire,
                                   const Compression& compression,
                                   std::span<const std::string> options = {});

/// The first difference between rank 0's description and each other rank's (descriptions[r]), in
/// words that name the plan, the gradient, both ranks (rank_names[r]) and both descriptions; empty
/// if there is none.
std::string find_plan_mismatch(const std::string& plan_name,
                               std::span<const std::vector<Request>> descriptions,
                               std::span<const std::string> rank_names);

}  // namespace horo::coordinator

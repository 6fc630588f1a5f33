#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/negotiation/contribution.h"
#include "horo/coordinator/negotiation/response_cache.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// Creates responses from complete contributions. Each operation has its own response, except that
/// allreduces of one tensor each can share a response, which is called a bucket. Such allreduces
/// have the same type, operation, absent ranks and device queue, and need not be consecutive in
/// `complete`. On a device, they also have the same scale factors. A bucket has at most
/// `bucket_bytes` and at most 4096 tensors. A tensor of more than `bucket_bytes` has a bucket of
/// its own.
///
/// If requests disagree, or if an operation needs a rank that is absent, the response is an error.
/// If `cache` has the number of a contribution, the response contains this number instead of the
/// name. `topology` describes the ranks for the texts of errors.
std::vector<Response> fuse(std::span<const Contribution> complete, std::size_t bucket_bytes,
                           const ResponseCache& cache, const Topology& topology);

}  // namespace horo::coordinator

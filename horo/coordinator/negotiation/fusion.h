#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/negotiation/contribution.h"
#include "horo/coordinator/negotiation/response_cache.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// Creates responses from complete contributions. Allreduces share a bucket if they have the same
/// type, operation, absent ranks and device queue. On a device, the scale factors must also be
/// equal. Other operations between the allreduces have no effect. A bucket holds at most
/// `bucket_bytes` and at most 4096 tensors. A larger tensor has a bucket of its own. Each group and
/// each other operation has its own response. If requests disagree, or if an operation needs a rank
/// that has joined, the response is an error. A response refers to a cached tensor by the cache
/// number. `topology` describes all ranks.
std::vector<Response> fuse(std::span<const Contribution> complete, std::size_t bucket_bytes,
                           const ResponseCache& cache, const Topology& topology);

}  // namespace horo::coordinator

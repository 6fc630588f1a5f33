#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/negotiation/contribution.h"
#include "horo/coordinator/negotiation/response_cache.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// Creates responses from complete contributions. Allreduces of one type and operation share a
/// bucket, even if other operations are between them, until it holds `bucket_bytes` or 4096
/// tensors. A larger tensor has its own bucket. On a device, the scale factors must also be equal.
/// Each group and each other operation has its own response. If requests disagree, or an operation
/// needs a rank that has joined, the response is an error. A cached tensor is identified by its
/// cache number. `topology`: the topology of all ranks.
std::vector<Response> fuse(std::span<const Contribution> complete, std::size_t bucket_bytes,
                           const ResponseCache& cache, const Topology& topology);

}  // namespace horo::coordinator

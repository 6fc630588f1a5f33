#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/contribution.h"
#include "horo/coordinator/response_cache.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// Turns what all ranks have submitted, in order, into responses. Allreduces of one type and
/// operation share a bucket until it holds `bucket_bytes` (a larger tensor is alone) or 4096
/// tensors, wherever they stand (on a device: those with the same scale factors); groups and
/// everything else get a response of their own. Where the ranks disagree, or one has joined that
/// the operation cannot do without, the response is an error that says so. What `cache` knows is
/// named by number. `topology`: of all ranks.
std::vector<Response> fuse(std::span<const Contribution> complete, std::size_t bucket_bytes,
                           const ResponseCache& cache, const Topology& topology);

}  // namespace horo::coordinator

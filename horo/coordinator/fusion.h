#pragma once

#include <cstddef>
#include <vector>

#include "horo/coordinator/negotiator.h"
#include "horo/coordinator/response_cache.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// Turns agreements, in order, into responses: neighbouring allreduces of one type and operation
/// share a bucket until it holds `bucket_bytes` (a larger tensor is alone); everything else gets a
/// response of its own. Tensors that `cache` knows are named by number.
std::vector<Response> fuse(const std::vector<Agreement>& agreements, std::size_t bucket_bytes,
                           const ResponseCache& cache);

}  // namespace horo::coordinator

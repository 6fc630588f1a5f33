#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce by synchronous parameter servers: ranks 0 ... servers-1 each own one chunk of the
/// buffer, gather everyone's values of it, combine them in rank order and send the result back,
/// segment by segment (at most `segment_bytes`), the next segment being gathered while one is
/// combined. (Source: Li et al., "Scaling distributed machine learning with the parameter server",
/// 2014, with a barrier in every step.)
/// Cost for N bytes, n ranks, s servers: N sent and N received by a worker, but (n-1)/s*N each by a
/// server, so the servers' links grow with the number of ranks where a ring's stay
/// level. `staging` is kept between calls.
void parameter_server_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                                int servers, std::size_t segment_bytes,
                                const ScatteredBuffer& buffer, ReduceOp op,
                                std::vector<std::byte>& staging);

}  // namespace horo::collectives

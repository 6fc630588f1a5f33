#pragma once

#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/scattered_buffer.h"

namespace horo::collectives {

/// Broadcast down a binomial tree, the whole buffer in one message: for small buffers. Cost:
/// ceil(log2 n) message times; at most ceil(log2 n) * N bytes sent by a rank. `staging` is used for
/// buffers in several pieces; keep it between calls. `rank_names` are for error texts.
///
/// Example, 6 ranks, root 0: 0 -> 4, 2, 1; 2 -> 3; 4 -> 5.
void binomial_broadcast(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, int root, std::vector<std::byte>& staging);

}  // namespace horo::collectives

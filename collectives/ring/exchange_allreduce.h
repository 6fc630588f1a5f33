#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Allreduce in place for small buffers: every rank sends its values to every other and combines
/// all of them itself, in rank order, 16-bit floats rounded once. Cost: one message time; (n-1) * N
/// bytes sent and received by each rank. `staging` is kept between calls; `rank_names` are for
/// error texts.
void exchange_allreduce(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, ReduceOp op,
                        std::vector<std::byte>& staging);

}  // namespace horo::collectives

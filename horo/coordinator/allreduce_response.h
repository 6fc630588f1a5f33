#pragma once

#include <span>

#include "collectives/communicator.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// Runs an agreed allreduce: one launch for each element type among the tensors, in the order of
/// their first ones. `tensors`: this rank's, in the response's order. If ranks are absent, they
/// contribute values that change nothing, and an average is divided by the number of the others
/// (16-bit floats then travel as float32 and are rounded once); on an absent rank `tensors` is
/// empty.
void allreduce(const Response& response, std::span<const TensorView> tensors,
               collectives::Communicator& communicator, const Topology& topology);

/// Fills `count` elements with what leaves every other value as it is under `op`, an elementwise
/// operation: 0, 1, or the largest or smallest value of the type.
void fill_with_identity(DataType type, ReduceOp op, void* data, std::size_t count);

}  // namespace horo::coordinator

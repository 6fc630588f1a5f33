#pragma once

#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// Runs one agreed response on this rank's entries (in the response's order) and blocks until it is
/// done. `topology`: the topology of the ranks that take part. Throws CommunicationError if a peer
/// is lost. Throws InvalidArgument, on the affected ranks, if an output has a size that does not
/// match the agreement. Called by the owner of the coordinator's rounds.
void execute(const Response& response, std::vector<Entry>& entries,
             collectives::Communicator& communicator, const Topology& topology);

/// Runs an agreed allreduce: one launch for each element type, in the order in which the types
/// first appear. `tensors` are the tensors of this rank, in the order of the response; empty on an
/// absent rank. Absent ranks contribute the identity of the operation. An average is divided by the
/// number of present ranks; 16-bit floats are then sent as float32 and rounded once.
void allreduce(const Response& response, std::span<const TensorView> tensors,
               collectives::Communicator& communicator, const Topology& topology);

/// Fills `count` elements with the identity of the elementwise operation `op`: 0, 1, or the largest
/// or smallest value of the type.
void fill_with_identity(DataType type, ReduceOp op, void* data, std::size_t count);

}  // namespace horo::coordinator

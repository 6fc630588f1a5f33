#pragma once

#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// Executes one response, which must not be an error, and blocks until the execution is complete on
/// this rank. `entries` must be this rank's entries in the order of the response. An absent rank
/// (Response::absent) has no entries. `topology` describes the ranks that take part. Throws
/// CommunicationError if a peer is lost, and rethrows exceptions of a task. If the output of a rank
/// has the wrong size, throws InvalidArgument on that rank only, after the collective. Called by
/// the owner of the coordinator's rounds.
void execute(const Response& response, std::vector<Entry>& entries,
             collectives::Communicator& communicator, const Topology& topology);

/// Returns the tensors of `entries`, in order. A group contributes all its tensors.
std::vector<TensorView> tensors_of(const std::vector<Entry>& entries);
/// Returns the element types of `tensors`, in the order in which they first appear.
std::vector<DataType> types_of(std::span<const TensorView> tensors);

/// Runs the allreduce of a response, without scale factors. Runs one collective for each element
/// type, in the order in which the types first appear. `tensors` must be the tensors of this rank
/// in the order of the response. An absent rank ignores `tensors` and contributes the identity of
/// the operation. If ranks are absent, an average is divided by the number of present ranks. In
/// that case, 16-bit floats are averaged in float32, and each result is rounded once to 16 bits.
void allreduce(const Response& response, std::span<const TensorView> tensors,
               collectives::Communicator& communicator, const Topology& topology);

/// Fills `count` elements with the identity of the elementwise operation `op`. The identity is 0,
/// 1, or the largest or smallest value of the type, which may be an infinity.
void fill_with_identity(DataType type, ReduceOp op, void* data, std::size_t count);

}  // namespace horo::coordinator

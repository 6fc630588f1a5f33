#pragma once

#include <span>

#include "horo/base/operation_options.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"

namespace horo {

using coordinator::Entry;

/// Makes coordinator entries for the operations of Context and checks the arguments. If an argument
/// is invalid, each function throws InvalidArgument with the name of the operation. `topology` is
/// the topology of the participating ranks.
Entry allreduce_entry(const TensorView& tensor, const AllreduceOptions& options);
/// The reduction runs in place in `output`. TensorQueue copies `input` to `output` when it accepts
/// the entry.
Entry allreduce_entry(const ConstTensorView& input, const TensorView& output,
                      const AllreduceOptions& options);
Entry allreduce_group_entry(std::span<const NamedTensor> tensors, const AllreduceOptions& options);
Entry broadcast_entry(const TensorView& tensor, const BroadcastOptions& options,
                      const Topology& topology);
Entry broadcast_group_entry(std::span<const NamedTensor> tensors, const BroadcastOptions& options,
                            const Topology& topology);
Entry allgather_entry(const ConstTensorView& input, const TensorView& output,
                      const AllgatherOptions& options);
Entry reduce_scatter_entry(const ConstTensorView& input, const TensorView& output,
                           const ReduceScatterOptions& options, const Topology& topology);
Entry alltoall_entry(const ConstTensorView& input, const TensorView& output,
                     const AlltoallOptions& options, const Topology& topology);
Entry barrier_entry(const BarrierOptions& options);
Entry join_entry();

/// The number of rows that a reduce_scatter of `rows` rows gives to this rank.
std::size_t rows_of_shard(std::size_t rows, const Topology& topology);

}  // namespace horo

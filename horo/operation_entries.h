#pragma once

#include <span>

#include "horo/base/topology.h"
#include "horo/context.h"
#include "horo/coordinator/entry.h"

namespace horo {

using coordinator::Entry;

/// The operations of Context as entries of the coordinator, with Context's checks of arguments.
/// Each throws InvalidArgument that names the operation. `topology`: of the ranks that take part.
Entry allreduce_entry(const TensorView& tensor, const AllreduceOptions& options);
/// `input` is copied to `output`, to be reduced there, when the entry is submitted.
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

/// How many of `rows` rows a reduce_scatter leaves on this rank.
std::size_t rows_of_shard(std::size_t rows, const Topology& topology);

}  // namespace horo

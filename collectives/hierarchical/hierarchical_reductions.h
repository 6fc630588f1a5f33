#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/collectives.h"
#include "collectives/hierarchical/node_layout.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_allreduce.h"
#include "collectives/ring/segment_flow.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// The components of the hierarchical collectives on one rank.
struct Hierarchy {
  NodeLayout layout;
  Collectives& node;          ///< the ranks of this node, by local rank
  Collectives* column;        ///< the ranks of this rank's column, by node; null: no column
  SegmentFlow* flow;          ///< the same ranks, for allreduces that overlap with other work
  std::size_t block_bytes;    ///< largest part of a buffer that is processed at a time
  std::size_t segment_bytes;  ///< of the rings along columns
  std::optional<Wire> wire;   ///< the type in which columns send float32
  /// Staging, kept between calls.
  std::vector<std::byte> block;
  std::array<std::vector<std::byte>, 2> shards;
  std::vector<std::byte> piece;
  /// Whether the allreduce of a block over the column may overlap with other work. False if a tree
  /// is forced.
  bool may_overlap = true;

  /// The parameters of this rank in a ring allreduce over its column, for values of all ranks.
  RingAllreduce ring() const {
    return {layout.node(), layout.node_count(), segment_bytes, layout.size(), wire};
  }
};

/// Reduce-scatter (see Collectives::reduce_scatter), in rounds that take a bounded part of the
/// share of every rank. Rank l of a node is assigned to column l modulo the number of columns, and
/// shares are packed by column. A reduce-scatter inside the node gives each rank with a column the
/// shares of its column. A second reduce-scatter over the column gives each of its ranks the shares
/// of its own node. On a node with more ranks than columns, an allgather inside the node then
/// distributes the shares. Cost for m nodes and N input bytes: each node sends (m-1)/m * N bytes to
/// other nodes.
void hierarchical_reduce_scatter(Hierarchy& hierarchy, const std::byte* input, DataType type,
                                 std::span<const std::size_t> count_of, std::byte* output,
                                 ReduceOp op);

/// Allreduces `values`, the partial result of this node, over this rank's column, with the
/// algorithm for their size. kAverage divides by the number of ranks: after the exchange, or before
/// it if the column uses a narrow wire type, whose range the sum may exceed.
inline void column_allreduce(Hierarchy& h, const ScatteredBuffer& values, ReduceOp op) {
  const bool is_narrow = h.wire && values.type() == DataType::kFloat32;
  if (is_narrow) divide_if_average(values, op, h.layout.size());
  h.column->allreduce(values, without_division(op));
  if (!is_narrow) divide_if_average(values, op, h.layout.size());
}

/// Allreduce of a small buffer by one leader per node: allreduce inside the node, allreduce among
/// the leaders (the first column), broadcast inside the node. Cost for m nodes: only one rank per
/// node sends messages, as many as in an allreduce of the whole buffer over m ranks.
/// hierarchical_allreduce() instead sends messages of one shard in all columns. Both give the same
/// bits if the column combines in the same order.
void leader_allreduce(Hierarchy& hierarchy, const ScatteredBuffer& buffer, ReduceOp op);

/// Allreduce in three phases, block by block: reduce-scatter inside the node, so that each rank
/// with a column holds one shard; allreduce of the shard over the column; allgather inside the
/// node. While a block is in flight between nodes, the same thread runs the node phases of the
/// adjacent blocks, and polls the messages whenever it waits in them:
///
///       messages      block k                    block k+1
///       in the node   gather k-1, reduce k+1     gather k, reduce k+2
///
/// Cost for m nodes, c columns and N bytes: a rank sends 2(m-1)/m * N/c bytes to other nodes. A
/// node sends 2(m-1)/m * N in total, the minimum for an allreduce. kAverage divides once, at the
/// end of the column, or before it with a narrow wire type. (Source: composition of the
/// hierarchical allreduces of Horovod and UCC.)
void hierarchical_allreduce(Hierarchy& hierarchy, const ScatteredBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives

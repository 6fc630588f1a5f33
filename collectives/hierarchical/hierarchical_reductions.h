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
  Collectives& node;          ///< of the ranks of this node, by local rank
  Collectives* column;        ///< of this rank's column, by node; null if it has none
  SegmentFlow* flow;          ///< over the same ranks; null without a column
  std::size_t block_bytes;    ///< largest part of a buffer that is processed at a time
  std::size_t segment_bytes;  ///< largest segment between nodes
  std::optional<Wire> wire;   ///< type of float32 in the rings of columns
  /// Staging memory, kept between calls.
  std::vector<std::byte> block;
  std::array<std::vector<std::byte>, 2> shards;
  std::vector<std::byte> piece;
  /// Whether the allreduce of a block over the column may overlap with other work. False if
  /// AllreduceSelection::setting requires a tree, because only the ring can overlap.
  bool may_overlap = true;

  /// Returns the parameters of this rank in a ring allreduce over its column. Requires a column.
  /// kAverage divides by the number of ranks of all nodes.
  RingAllreduce ring() const {
    return {layout.node(), layout.node_count(), segment_bytes, layout.size(), wire};
  }
};

/// Reduce-scatter (see Collectives::reduce_scatter), in rounds that take a bounded part of the
/// share of every rank. The share of the rank with local rank l belongs to column l modulo the
/// number of columns. First, a reduce-scatter inside the node gives each rank with a column the
/// shares that belong to this column, reduced over the node. Then a reduce-scatter over the column
/// reduces these shares over all nodes. Each rank of the column gets the reduced shares that belong
/// to ranks of its own node. On a node with more ranks than columns, an allgather inside the node
/// then distributes the shares. Cost for m nodes and N input bytes, if the shares of all nodes have
/// equal sizes: each node sends (m-1)/m * N bytes to other nodes.
void hierarchical_reduce_scatter(Hierarchy& hierarchy, const std::byte* input, DataType type,
                                 std::span<const std::size_t> count_of, std::byte* output,
                                 ReduceOp op);

/// Allreduces `values`, the partial result of this node, over this rank's column. Requires a
/// column. kAverage divides by the number of ranks of all nodes. If a wire type is set and the
/// values are float32, it divides before the exchange, because the sum may exceed the range of the
/// wire type. Otherwise it divides after the exchange.
inline void column_allreduce(Hierarchy& h, const ScatteredBuffer& values, ReduceOp op) {
  const bool is_narrow = h.wire && values.type() == DataType::kFloat32;
  if (is_narrow) divide_if_average(values, op, h.layout.size());
  h.column->allreduce(values, without_division(op));
  if (!is_narrow) divide_if_average(values, op, h.layout.size());
}

/// Allreduce of a small buffer by one leader per node. It consists of an allreduce inside the node,
/// an allreduce among the leaders (the first column), and a broadcast inside the node. Cost for m
/// nodes: only one rank per node sends messages between nodes. This rank sends the messages of an
/// allreduce of the whole buffer over m ranks. In hierarchical_allreduce(), each column instead
/// exchanges one shard. Both functions give the same bits if their allreduces over columns combine
/// the values in the same order.
void leader_allreduce(Hierarchy& hierarchy, const ScatteredBuffer& buffer, ReduceOp op);

/// Allreduce in three phases, block by block. First, a reduce-scatter inside the node gives each
/// rank with a column one shard. Second, the columns allreduce their shards. Third, an allgather
/// inside the node distributes the shards. If there are several blocks and Hierarchy::may_overlap
/// is true, the messages of one block overlap with the node phases of the adjacent blocks. The
/// thread that runs the node phases also advances the messages when it waits:
///
///       messages      block k                    block k+1
///       in the node   gather k-1, reduce k+1     gather k, reduce k+2
///
/// Cost with the ring for m nodes, c columns and N bytes: a rank with a column sends 2(m-1)/m * N/c
/// bytes to other nodes. A node sends 2(m-1)/m * N bytes in total, which is the minimum for an
/// allreduce. kAverage divides in the second phase. (Sources: the hierarchical allreduces of
/// Horovod and UCC.)
void hierarchical_allreduce(Hierarchy& hierarchy, const ScatteredBuffer& buffer, ReduceOp op);

}  // namespace horo::collectives

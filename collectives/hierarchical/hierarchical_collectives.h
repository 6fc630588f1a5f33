#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/collectives.h"
#include "collectives/hierarchical/hierarchical_reductions.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/reduce_op.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Allreduce of buffers that the ranks of each node have mapped from each other. Each rank that has
/// a column owns one shard of the buffer. For this shard, the rank runs a ring allreduce over its
/// column on behalf of all ranks of its node (see prepare_ring_allreduce()). It combines the values
/// of these ranks segment by segment, and writes the complete values to the buffers of all of these
/// ranks. Only segments are staged. The work in memory overlaps with messages in flight. The
/// function also takes two barriers inside the node.
///
/// The cost between nodes is that of hierarchical_allreduce(). In memory, for m nodes, l ranks on a
/// node and buffers of N bytes, the ranks of the node together read about l * N bytes of the
/// buffers and write as many. Partial results add about (m-1)/m * N bytes of reads and as many
/// bytes of writes. Values are combined in rank order inside a node and in ring order between
/// nodes. 16-bit floats are rounded once per hop.
void hierarchical_mapped_allreduce(Hierarchy& hierarchy, const MappedBuffer& buffer, ReduceOp op);

/// Alltoall (see Collectives::alltoall). `flow` connects all ranks. If the ranks of this node are
/// consecutive, the collectives of the node exchange the blocks inside the node. Otherwise these
/// blocks are not contiguous in the buffers, and pairs of ranks exchange them as messages. Pairs of
/// ranks also exchange the blocks for other nodes as messages. Cost for n ranks: every byte for
/// another node is sent once. A rank sends and receives the blocks of n - l ranks as messages if
/// its node has l consecutive ranks, and those of n - 1 ranks otherwise.
void hierarchical_alltoall(Hierarchy& hierarchy, SegmentFlow& flow, std::size_t segment_bytes,
                           std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                           std::span<std::byte> output, std::span<const std::size_t> bytes_from);

/// Allgather (see Collectives::allgather), in rounds that take a bounded part of the input of every
/// rank. In each round, the ranks of each node first gather their parts. The first ranks of the
/// nodes then exchange the data of their nodes and broadcast the result inside their nodes.
/// Finally, each rank copies all parts to their positions in the output. The ranks of a node need
/// not be consecutive. Cost: each node receives every byte of the other nodes once.
void hierarchical_allgather(Hierarchy& hierarchy, std::span<const std::byte> input,
                            std::span<const std::size_t> bytes_of, std::span<std::byte> output);

/// Collectives among ranks on several nodes. They combine the collectives of each node with
/// collectives over columns, in which ranks with the same local rank exchange messages (see
/// NodeLayout). Only alltoall sends messages between other pairs of ranks. Nodes may have different
/// numbers of ranks. On one node, all calls are forwarded to the collectives of the node. An
/// allreduce of a large buffer overlaps the work inside the node with the messages between nodes,
/// if it uses the ring.
class HierarchicalCollectives : public Collectives {
 public:
  struct Options {
    std::size_t segment_bytes = 256 * 1024;     ///< largest segment between nodes
    std::size_t block_bytes = 4 * 1024 * 1024;  ///< largest part that is processed at a time
    AllreduceSelection allreduce{};             ///< selects the allreduce over a column
  };
  /// `node` connects the ranks of this node, numbered by local rank. `peers` connects all ranks,
  /// and no other code may use `peers`. Both objects must outlive this one.
  HierarchicalCollectives(const Topology& topology, Collectives& node, PointToPoint& peers,
                          const Options& options);
  HierarchicalCollectives(const Topology& topology, Collectives& node, PointToPoint& peers,
                          std::size_t segment_bytes)
      : HierarchicalCollectives(topology, node, peers, Options{.segment_bytes = segment_bytes}) {}

  /// Sets the wire type of ring allreduces between nodes; see RingCollectives. Ranks without a
  /// column must also call this function.
  void set_wire_type(std::optional<DataType> wire, WireReport& report) {
    hierarchy_.wire.reset();
    if (wire) hierarchy_.wire = Wire{*wire, &report};
    if (column_) column_->set_wire_type(wire, report);
  }
  /// Sets the largest segment between nodes; see RingCollectives. Ranks without a column must also
  /// call this function.
  void set_segment_bytes(std::size_t bytes) {
    hierarchy_.segment_bytes = bytes;
    if (column_) column_->set_segment_bytes(bytes);
  }

  std::string_view name() const override { return "hierarchical"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override;
  void allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) override;
  bool uses_mapped_buffers() const override {
    return !is_one_node() || hierarchy_.node.uses_mapped_buffers();
  }
  void broadcast(const ScatteredBuffer& buffer, int root) override;
  void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                 std::span<std::byte> output) override;
  void reduce_scatter(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op) override;
  void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                std::span<std::byte> output, std::span<const std::size_t> bytes_from) override;
  void barrier() override;

 private:
  bool should_use_leaders(const ScatteredBuffer& buffer) const;
  // Returns the argument `ring_wire` of predicted_seconds() for `buffer`.
  double ring_wire(const ScatteredBuffer& buffer) const;
  bool is_one_node() const { return hierarchy_.layout.node_count() == 1; }

  Hierarchy hierarchy_;
  std::optional<SubGroup> column_peers_;
  std::vector<std::string> column_names_;
  std::optional<RingCollectives> column_;
  std::optional<SegmentFlow> column_flow_;
  AllreduceSelection allreduce_;
  std::vector<std::string> rank_names_;
  SegmentFlow flow_;  // among all ranks
};

}  // namespace horo::collectives

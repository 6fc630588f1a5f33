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
/// a column owns a shard of the buffer and reduces it over its column for all ranks of its node
/// (see prepare_ring_allreduce()). It combines their values segment by segment as it sends them,
/// and writes complete values to all of their buffers. Only segments are staged. The work in memory
/// overlaps with the messages on one thread. Takes two barriers inside the node.
///
/// Cost between nodes as hierarchical_allreduce(). In memory, the ranks of a node read and write N
/// bytes per rank, plus (m-1)/m * N for partial values. Values are combined in rank order inside a
/// node and in ring order between nodes. 16-bit floats are rounded once per hop.
void hierarchical_mapped_allreduce(Hierarchy& hierarchy, const MappedBuffer& buffer, ReduceOp op);

/// Alltoall (see Collectives::alltoall). Blocks for ranks of the same node use the collectives of
/// the node, and blocks for other nodes are sent directly by pairs. `flow` connects all ranks. If
/// the ranks of a node are not consecutive, their blocks are not contiguous and are sent by pairs
/// as well. Cost: every byte is sent between nodes once; a rank whose node has l of n ranks takes n
/// - l rounds of messages.
void hierarchical_alltoall(Hierarchy& hierarchy, SegmentFlow& flow, std::size_t segment_bytes,
                           std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                           std::span<std::byte> output, std::span<const std::size_t> bytes_from);

/// Allgather (see Collectives::allgather), in rounds that take a bounded part of the input of every
/// rank. Each round gathers inside each node, exchanges the data of the nodes among their first
/// ranks, broadcasts inside each node, and copies the part of each rank to its position. Ranks of
/// different nodes may be interleaved. Cost: every byte is sent into each other node once.
void hierarchical_allgather(Hierarchy& hierarchy, std::span<const std::byte> input,
                            std::span<const std::size_t> bytes_of, std::span<std::byte> output);

/// Collectives of a job on several nodes, composed of the collectives of the node and of rings
/// between nodes among ranks with the same local rank (see NodeLayout). Alltoall sends between
/// nodes by pairs. Nodes may have different numbers of ranks. On one node, all calls are forwarded
/// to the collectives of the node. An allreduce overlaps its phases in the node with its messages;
/// the phases of other collectives run one after the other.
class HierarchicalCollectives : public Collectives {
 public:
  struct Options {
    std::size_t segment_bytes = 256 * 1024;     ///< of the rings across nodes
    std::size_t block_bytes = 4 * 1024 * 1024;  ///< largest part that is processed at a time
    AllreduceSelection allreduce{};             ///< of the columns
  };
  /// `node` connects the ranks of this node, numbered by local rank. `peers` connects all ranks and
  /// is not used by other code. Both outlive this object.
  HierarchicalCollectives(const Topology& topology, Collectives& node, PointToPoint& peers,
                          const Options& options);
  HierarchicalCollectives(const Topology& topology, Collectives& node, PointToPoint& peers,
                          std::size_t segment_bytes)
      : HierarchicalCollectives(topology, node, peers, Options{.segment_bytes = segment_bytes}) {}

  /// The wire type and the segment size of messages between nodes; see RingCollectives. Ranks
  /// without a column call these functions too.
  void set_wire_type(std::optional<DataType> wire, WireReport& report) {
    hierarchy_.wire.reset();
    if (wire) hierarchy_.wire = Wire{*wire, &report};
    if (column_) column_->set_wire_type(wire, report);
  }
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
  // The bytes that the ring sends per byte of the buffer.
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

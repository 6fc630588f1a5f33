#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "collectives/hierarchical/hierarchy.h"
#include "collectives/point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Collectives of a job on several nodes, composed of others: those of the node, and rings across
/// nodes among ranks with the same local rank (see NodeLayout); alltoall sends across nodes by
/// pairs. Nodes may have different numbers of ranks. On one node everything is the node's own. Of
/// an allreduce the wire and the nodes' phases overlap; the phases of the others follow each other.
class HierarchicalCollectives : public Collectives {
 public:
  struct Options {
    std::size_t segment_bytes = 256 * 1024;     ///< of the rings across nodes
    std::size_t block_bytes = 4 * 1024 * 1024;  ///< how much goes through all phases at a time
    AllreduceSelection allreduce{};             ///< of the columns
  };
  /// `node`: among the ranks of this rank's node, numbered by local rank. `peers`: among all ranks;
  /// carries nothing else. Both outlive this.
  HierarchicalCollectives(const Topology& topology, Collectives& node, PointToPoint& peers,
                          const Options& options);
  HierarchicalCollectives(const Topology& topology, Collectives& node, PointToPoint& peers,
                          std::size_t segment_bytes)
      : HierarchicalCollectives(topology, node, peers, Options{.segment_bytes = segment_bytes}) {}

  /// See RingCollectives: what travels between nodes. Ranks without a column call them too.
  void narrow_the_wire(std::optional<DataType> wire, WireReport& report) {
    hierarchy_.wire.reset();
    if (wire) hierarchy_.wire = Wire{*wire, &report};
    if (column_) column_->narrow_the_wire(wire, report);
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
  // Of the buffer's bytes, the part that travels round the ring.
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

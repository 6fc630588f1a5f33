#include "collectives/hierarchical/hierarchical_collectives.h"

#include <algorithm>

#include "collectives/hierarchical/hierarchical_allgather.h"
#include "collectives/hierarchical/hierarchical_allreduce.h"
#include "collectives/hierarchical/hierarchical_alltoall.h"
#include "collectives/hierarchical/hierarchical_mapped_allreduce.h"
#include "collectives/hierarchical/hierarchical_reduce_scatter.h"
#include "collectives/hierarchical/leader_allreduce.h"
#include "collectives/rank_names.h"
#include "collectives/stretches.h"

namespace horo::collectives {
HierarchicalCollectives::HierarchicalCollectives(const Topology& topology, Collectives& node,
                                                 PointToPoint& peers, const Options& options)
    : hierarchy_{NodeLayout(topology),  node, nullptr, nullptr, options.block_bytes,
                 options.segment_bytes, {},   {},      {},      {}},
      allreduce_(options.allreduce),
      rank_names_(names_of(topology)),
      flow_(peers, rank_names_) {
  hierarchy_.may_overlap = allreduce_.setting == MessageAllreduce::kAuto ||
                           allreduce_.setting == MessageAllreduce::kRing;
  const NodeLayout& layout = hierarchy_.layout;
  if (!layout.has_column()) return;
  const std::vector<int> ranks = layout.column_ranks(layout.local_rank());
  column_names_ = names_of(topology, ranks);
  column_peers_.emplace(peers, ranks, 0);  // columns have no rank in common: they can share tags
  column_.emplace(*column_peers_, options.segment_bytes, column_names_, allreduce_);
  column_flow_.emplace(*column_peers_, column_names_);
  hierarchy_.column = &*column_;
  hierarchy_.flow = &*column_flow_;
}

void HierarchicalCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  if (is_one_node()) return hierarchy_.node.allreduce(buffer, op);
  if (should_use_leaders(buffer)) return leader_allreduce(hierarchy_, buffer, op);
  hierarchical_allreduce(hierarchy_, buffer, op);
}

void HierarchicalCollectives::allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) {
  if (is_one_node()) return hierarchy_.node.allreduce_mapped(buffer, op);
  if (should_use_leaders(buffer.own())) return leader_allreduce(hierarchy_, buffer.own(), op);
  const NodeLayout& layout = hierarchy_.layout;
  const std::size_t shard_bytes = buffer.own().bytes() / static_cast<std::size_t>(layout.columns());
  if (choose_allreduce(allreduce_, shard_bytes, layout.node_count(), ring_wire(buffer.own())) ==
      MessageAllreduce::kRing)
    hierarchical_mapped_allreduce(hierarchy_, buffer, op);
  else
    hierarchical_allreduce(hierarchy_, buffer.own(), op);
}

double HierarchicalCollectives::ring_wire(const ScatteredBuffer& buffer) const {
  return hierarchy_.wire && buffer.type() == DataType::kFloat32 ? 0.5 : 1;
}

bool HierarchicalCollectives::should_use_leaders(const ScatteredBuffer& buffer) const {
  const NodeLayout& layout = hierarchy_.layout;
  return collectives::should_use_leaders(allreduce_, buffer.bytes(), layout.node_count(),
                                         layout.columns(), ring_wire(buffer));
}

void HierarchicalCollectives::broadcast(const ScatteredBuffer& buffer, int root) {
  const NodeLayout& layout = hierarchy_.layout;
  if (is_one_node()) return hierarchy_.node.broadcast(buffer, root);
  const int root_node = layout.node_of(root);
  const std::size_t block =
      std::max<std::size_t>(hierarchy_.block_bytes / buffer.element_bytes(), 1);
  // Block by block, so that one node passes a block on while the next is on its way.
  for (std::size_t begin = 0; begin < buffer.count(); begin += block) {
    const ScatteredBuffer part = part_of(buffer, {begin, std::min(begin + block, buffer.count())});
    if (layout.node() == root_node) hierarchy_.node.broadcast(part, layout.local_rank_of(root));
    if (layout.local_rank() == 0) column_->broadcast(part, root_node);
    if (layout.node() != root_node) hierarchy_.node.broadcast(part, 0);
  }
}

void HierarchicalCollectives::allgather(std::span<const std::byte> input,
                                        std::span<const std::size_t> bytes_of,
                                        std::span<std::byte> output) {
  if (is_one_node()) return hierarchy_.node.allgather(input, bytes_of, output);
  hierarchical_allgather(hierarchy_, input, bytes_of, output);
}

void HierarchicalCollectives::reduce_scatter(const std::byte* input, DataType type,
                                             std::span<const std::size_t> count_of,
                                             std::byte* output, ReduceOp op) {
  if (is_one_node()) return hierarchy_.node.reduce_scatter(input, type, count_of, output, op);
  hierarchical_reduce_scatter(hierarchy_, input, type, count_of, output, op);
}

void HierarchicalCollectives::alltoall(std::span<const std::byte> input,
                                       std::span<const std::size_t> bytes_to,
                                       std::span<std::byte> output,
                                       std::span<const std::size_t> bytes_from) {
  if (is_one_node()) return hierarchy_.node.alltoall(input, bytes_to, output, bytes_from);
  hierarchical_alltoall(hierarchy_, flow_, hierarchy_.segment_bytes, input, bytes_to, output,
                        bytes_from);
}

void HierarchicalCollectives::barrier() {
  hierarchy_.node.barrier();
  if (is_one_node()) return;
  if (hierarchy_.layout.local_rank() == 0) column_->barrier();
  hierarchy_.node.barrier();
}

}  // namespace horo::collectives

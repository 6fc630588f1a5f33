#include "collectives/hierarchical/hierarchical_collectives.h"

#include <algorithm>

#include "collectives/hierarchical/hierarchical_allgather.h"
#include "collectives/hierarchical/hierarchical_allreduce.h"
#include "collectives/hierarchical/hierarchical_alltoall.h"
#include "collectives/hierarchical/hierarchical_reduce_scatter.h"
#include "collectives/hierarchical/leader_allreduce.h"
#include "collectives/stretches.h"

namespace horo::collectives {
namespace {

std::vector<std::string> names_of(const Topology& topology) {
  std::vector<std::string> names;
  for (int rank = 0; rank < topology.size; ++rank) names.push_back(topology.describe(rank));
  return names;
}

}  // namespace

HierarchicalCollectives::HierarchicalCollectives(const Topology& topology, Collectives& node,
                                                 PointToPoint& peers, const Options& options)
    : hierarchy_{NodeLayout(topology), node, nullptr, options.block_bytes, false, {}, {}, {}},
      segment_bytes_(options.segment_bytes),
      allreduce_(options.allreduce),
      rank_names_(names_of(topology)),
      flow_(peers, rank_names_) {
  const NodeLayout& layout = hierarchy_.layout;
  if (!layout.has_column()) return;
  const std::vector<int> ranks = layout.column_ranks(layout.local_rank());
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(topology.describe(rank));
  column_peers_.emplace(peers, ranks, 0);  // columns have no rank in common: they can share tags
  column_.emplace(*column_peers_, options.segment_bytes, names, allreduce_);
  hierarchy_.column = &*column_;
}

void HierarchicalCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  if (is_one_node()) return hierarchy_.node.allreduce(buffer, op);
  if (should_use_leaders(buffer)) return leader_allreduce(hierarchy_, buffer, op);
  hierarchical_allreduce(hierarchy_, buffer, op);
}

bool HierarchicalCollectives::should_use_leaders(const ScatteredBuffer& buffer) const {
  const bool is_narrow = hierarchy_.is_wire_narrow && buffer.type() == DataType::kFloat32;
  const NodeLayout& layout = hierarchy_.layout;
  return collectives::should_use_leaders(allreduce_, buffer.bytes(), layout.node_count(),
                                         layout.columns(), is_narrow ? 0.5 : 1);
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
  hierarchical_alltoall(hierarchy_, flow_, segment_bytes_, input, bytes_to, output, bytes_from);
}

void HierarchicalCollectives::barrier() {
  hierarchy_.node.barrier();
  if (is_one_node()) return;
  if (hierarchy_.layout.local_rank() == 0) column_->barrier();
  hierarchy_.node.barrier();
}

}  // namespace horo::collectives

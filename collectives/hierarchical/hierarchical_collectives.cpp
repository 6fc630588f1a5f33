#include "collectives/hierarchical/hierarchical_collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/hierarchical/hierarchical_reductions.h"
#include "collectives/ring/ring_algorithms.h"
#include "horo/base/topology.h"

namespace horo::collectives {

// The barriers protect the buffers. No rank accesses the buffer of another rank before that rank
// has entered the call, and no rank returns while another rank accesses its buffer.
void hierarchical_mapped_allreduce(Hierarchy& h, const MappedBuffer& buffer, ReduceOp op) {
  h.node.barrier();  // all ranks of the node have entered the call
  if (h.flow != nullptr) {
    const MappedBuffer shard =
        buffer.part(chunk_of_lines(buffer.own().count(), buffer.own().element_bytes(),
                                   h.layout.columns(), h.layout.local_rank()));
    const PreparedFlow flow = prepare_ring_allreduce(h.ring(), shard, op);
    if (flow.ends != nullptr) h.flow->run(flow.plan, *flow.ends);
  }
  h.node.barrier();  // all shards are complete
}

// If the collectives of the node have exchanged the blocks inside the node, this function drops
// these blocks. The pairwise exchange then sends only the blocks for other nodes.
void hierarchical_alltoall(Hierarchy& h, SegmentFlow& flow, std::size_t segment_bytes,
                           std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                           std::span<std::byte> output, std::span<const std::size_t> bytes_from) {
  const NodeLayout& layout = h.layout;
  AlltoallBlocks blocks(input, bytes_to, output, bytes_from);
  if (layout.is_consecutive(layout.node())) {
    const int first = layout.rank_at(layout.node(), 0);
    const int count = layout.local_size(layout.node());
    // Returns the part of `buffer` with the blocks of the ranks of this node.
    const auto of_node = [&](auto buffer, std::span<const std::size_t> sizes) {
      const PartOffsets parts(sizes);
      const std::size_t begin = parts[first].begin;
      return buffer.subspan(begin, parts[first + count - 1].end - begin);
    };
    const auto ranks_of_node = [&](std::span<const std::size_t> sizes) {
      return sizes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    h.node.alltoall(of_node(input, bytes_to), ranks_of_node(bytes_to), of_node(output, bytes_from),
                    ranks_of_node(bytes_from));
    for (int rank = first; rank < first + count; ++rank) blocks.drop(rank);
  }
  pairwise_alltoall(flow, layout.rank_at(layout.node(), layout.local_rank()), layout.size(),
                    segment_bytes, blocks);
}

namespace {

// One round: bytes [begin, begin + bytes_of[r]) of the input of each rank r.
struct Round {
  std::size_t begin;
  std::vector<std::size_t> bytes_of;
};

Round round_at(std::span<const std::size_t> bytes_of, std::size_t begin, std::size_t per_rank) {
  Round round{begin, {}};
  for (const std::size_t bytes : bytes_of)
    round.bytes_of.push_back(bytes > begin ? std::min(bytes - begin, per_rank) : 0);
  return round;
}

// Gathers the parts of all ranks in one round into h.block, sorted by node and local rank. Returns
// the address of h.block.
std::byte* gather_round(Hierarchy& h, std::span<const std::byte> own, const Round& round) {
  const NodeLayout& layout = h.layout;
  std::vector<std::size_t> bytes_of_node, bytes_of_local;
  for (int n = 0; n < layout.node_count(); ++n) {
    bytes_of_node.push_back(0);
    for (int l = 0; l < layout.local_size(n); ++l) {
      const std::size_t bytes = round.bytes_of[static_cast<std::size_t>(layout.rank_at(n, l))];
      bytes_of_node.back() += bytes;
      if (n == layout.node()) bytes_of_local.push_back(bytes);
    }
  }
  const PartOffsets nodes(bytes_of_node);
  const std::span<std::byte> all(ensure_size(h.block, nodes.total()), nodes.total());
  const auto own_node = all.subspan(nodes[layout.node()].begin, nodes[layout.node()].count());
  h.node.allgather(own, bytes_of_local, own_node);
  if (layout.local_rank() == 0) h.column->allgather(own_node, bytes_of_node, all);
  h.node.broadcast(ScatteredBuffer(DataType::kUInt8, all.data(), all.size()), 0);
  return all.data();
}

}  // namespace

// Works in rounds, so the staging memory does not grow with the inputs. The staging memory has at
// most block_bytes, or kSmallestPart per rank if that is more.
void hierarchical_allgather(Hierarchy& h, std::span<const std::byte> input,
                            std::span<const std::size_t> bytes_of, std::span<std::byte> output) {
  constexpr std::size_t kSmallestPart = 4096;
  const PartOffsets parts(bytes_of);
  const std::size_t per_rank = std::max(h.block_bytes / bytes_of.size(), kSmallestPart);
  const std::size_t largest = *std::max_element(bytes_of.begin(), bytes_of.end());
  for (std::size_t begin = 0; begin < largest; begin += per_rank) {
    const Round round = round_at(bytes_of, begin, per_rank);
    const std::size_t own_bytes = round.bytes_of[static_cast<std::size_t>(
        h.layout.rank_at(h.layout.node(), h.layout.local_rank()))];
    const std::byte* from =
        gather_round(h, input.subspan(std::min(begin, input.size()), own_bytes), round);
    for (int n = 0; n < h.layout.node_count(); ++n)
      for (int l = 0; l < h.layout.local_size(n); ++l) {
        const int rank = h.layout.rank_at(n, l);
        const std::size_t bytes = round.bytes_of[static_cast<std::size_t>(rank)];
        if (bytes != 0) std::memcpy(output.data() + parts[rank].begin + begin, from, bytes);
        from += bytes;
      }
  }
}

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
  column_peers_.emplace(peers, ranks, 0);  // columns share no rank, so they can share tags
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
  // Works block by block, so that a node can distribute one block while the next block is in
  // flight.
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

// After the first barrier, all ranks of the node have called this function. The first ranks of the
// nodes then enter the barrier between nodes. In the second barrier, the other ranks of a node wait
// until their first rank has left the barrier between nodes.
void HierarchicalCollectives::barrier() {
  hierarchy_.node.barrier();
  if (is_one_node()) return;
  if (hierarchy_.layout.local_rank() == 0) column_->barrier();
  hierarchy_.node.barrier();
}

}  // namespace horo::collectives

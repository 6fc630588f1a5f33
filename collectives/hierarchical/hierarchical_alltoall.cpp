#include "collectives/hierarchical/hierarchical_alltoall.h"

#include "collectives/alltoall_blocks.h"
#include "collectives/part_offsets.h"
#include "collectives/ring/pairwise_alltoall.h"

namespace horo::collectives {

void hierarchical_alltoall(Hierarchy& h, SegmentFlow& flow, std::size_t segment_bytes,
                           std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                           std::span<std::byte> output, std::span<const std::size_t> bytes_from) {
  const NodeLayout& layout = h.layout;
  AlltoallBlocks blocks(input, bytes_to, output, bytes_from);
  if (layout.is_consecutive(layout.node())) {
    const int first = layout.rank_at(layout.node(), 0);
    const int count = layout.local_size(layout.node());
    // The part of a buffer that concerns the node.
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

}  // namespace horo::collectives

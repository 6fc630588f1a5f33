#include "collectives/hierarchical/hierarchical_allgather.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/part_offsets.h"

namespace horo::collectives {
namespace {

// The part of each rank's input that goes through in one round: bytes [begin, begin + bytes_of[r]).
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

// Gathers one round of all ranks, node after node, into the staging block.
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
  const std::span<std::byte> all(at_least(h.block, nodes.total()), nodes.total());
  const auto own_node = all.subspan(nodes[layout.node()].begin, nodes[layout.node()].count());
  h.node.allgather(own, bytes_of_local, own_node);
  if (layout.local_rank() == 0) h.column->allgather(own_node, bytes_of_node, all);
  h.node.broadcast(ScatteredBuffer(DataType::kUInt8, all.data(), all.size()), 0);
  return all.data();
}

}  // namespace

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

}  // namespace horo::collectives

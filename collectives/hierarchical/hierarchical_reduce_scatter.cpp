#include "collectives/hierarchical/hierarchical_reduce_scatter.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/part_offsets.h"
#include "collectives/reduce/division.h"

namespace horo::collectives {
namespace {

// One round: elements [begin, ...) of every rank's share, at most per_rank of each.
class Round {
 public:
  Round(const NodeLayout& layout, const PartOffsets& shares, std::size_t begin,
        std::size_t per_rank)
      : layout_(layout), shares_(shares), begin_(begin), per_rank_(per_rank) {
    for (int c = 0; c < layout.columns(); ++c) {
      counts_.emplace_back();
      for (int n = 0; n < layout.node_count(); ++n) {
        counts_.back().push_back(0);
        for (int l = c; l < layout.local_size(n); l += layout.columns())
          counts_.back().back() += part(n, l).count();
      }
      column_counts_.push_back(
          std::accumulate(counts_.back().begin(), counts_.back().end(), std::size_t{0}));
    }
  }

  // What goes through of the share of one rank: elements of the whole input.
  Range part(int node, int local_rank) const {
    const Range share = shares_[layout_.rank_at(node, local_rank)];
    const std::size_t begin = std::min(share.begin + begin_, share.end);
    return {begin, std::min(begin + per_rank_, share.end)};
  }
  const std::vector<std::size_t>& column_counts() const { return column_counts_; }
  /// counts of `column` by node
  const std::vector<std::size_t>& counts_of(int column) const {
    return counts_[static_cast<std::size_t>(column)];
  }
  std::size_t total() const {
    return std::accumulate(column_counts_.begin(), column_counts_.end(), std::size_t{0});
  }
  // Copies the parts, by column, by node, by local rank.
  void pack(const std::byte* input, std::size_t width, std::byte* to) const {
    for (int c = 0; c < layout_.columns(); ++c)
      for (int n = 0; n < layout_.node_count(); ++n)
        for (int l = c; l < layout_.local_size(n); l += layout_.columns()) {
          const Range range = part(n, l);
          const std::size_t bytes = range.count() * width;
          if (bytes != 0) std::memcpy(to, input + range.begin * width, bytes);
          to += bytes;
        }
  }

 private:
  const NodeLayout& layout_;
  const PartOffsets& shares_;
  std::size_t begin_;
  std::size_t per_rank_;
  std::vector<std::vector<std::size_t>> counts_;  // by column, by node
  std::vector<std::size_t> column_counts_;
};

// Takes this rank's part out of what its node's columns hold, where that is not the rank's own
// column.
void hand_over(Hierarchy& h, const Round& round, std::size_t width, const std::byte* piece,
               std::byte* output) {
  const int node = h.layout.node();
  std::vector<std::size_t> bytes_of;
  for (int c = 0; c < h.layout.columns(); ++c)
    bytes_of.push_back(round.counts_of(c)[static_cast<std::size_t>(node)] * width);
  bytes_of = h.layout.for_local_ranks(bytes_of);
  const PartOffsets parts(bytes_of);
  std::byte* gathered = at_least(h.block, parts.total());
  h.node.allgather({piece, bytes_of[static_cast<std::size_t>(h.layout.local_rank())]}, bytes_of,
                   {gathered, parts.total()});
  const int column = h.layout.local_rank() % h.layout.columns();
  std::size_t at = parts[column].begin;
  for (int l = column; l < h.layout.local_rank(); l += h.layout.columns())
    at += round.part(node, l).count() * width;
  const std::size_t bytes = round.part(node, h.layout.local_rank()).count() * width;
  if (bytes != 0) std::memcpy(output, gathered + at, bytes);
}

void run_round(Hierarchy& h, const Round& round, const std::byte* input, DataType type,
               std::byte* output, ReduceOp op) {
  const std::size_t width = size_of(type);
  const NodeLayout& layout = h.layout;
  std::byte* packed = at_least(h.block, round.total() * width);
  round.pack(input, width, packed);
  const auto count_of = layout.for_local_ranks(round.column_counts());
  const std::size_t shard_count = count_of[static_cast<std::size_t>(layout.local_rank())];
  std::byte* shard = at_least(h.shards[0], shard_count * width);
  h.node.reduce_scatter(packed, type, count_of, shard, without_division(op));

  const bool is_own_column_all = layout.local_size(layout.node()) == layout.columns();
  std::byte* piece = output;
  if (h.column != nullptr) {
    const auto& counts = round.counts_of(layout.local_rank());
    const std::size_t piece_count = counts[static_cast<std::size_t>(layout.node())];
    if (!is_own_column_all) piece = at_least(h.piece, piece_count * width);
    h.column->reduce_scatter(shard, type, counts, piece, without_division(op));
    divide_if_average(type, op, piece, piece_count, layout.size());
  }
  if (!is_own_column_all) hand_over(h, round, width, piece, output);
}

}  // namespace

void hierarchical_reduce_scatter(Hierarchy& h, const std::byte* input, DataType type,
                                 std::span<const std::size_t> count_of, std::byte* output,
                                 ReduceOp op) {
  constexpr std::size_t kSmallestPart = 1024;
  const std::size_t width = size_of(type);
  const PartOffsets shares(count_of);
  const std::size_t per_rank = std::max(h.block_bytes / width / count_of.size(), kSmallestPart);
  const std::size_t largest = *std::max_element(count_of.begin(), count_of.end());
  for (std::size_t begin = 0; begin < largest; begin += per_rank) {
    const Round round(h.layout, shares, begin, per_rank);
    run_round(h, round, input, type, output, op);
    output += round.part(h.layout.node(), h.layout.local_rank()).count() * width;
  }
}

}  // namespace horo::collectives

#include "collectives/hierarchical/hierarchical_reductions.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "horo/base/wait.h"

namespace horo::collectives {
namespace {

// One round of a reduce-scatter. It reduces at most per_rank elements of every rank's share, from
// element `begin` of the share on.
class ScatterRound {
 public:
  ScatterRound(const NodeLayout& layout, const PartOffsets& shares, std::size_t begin,
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

  // Returns the part of one rank's share in this round, as a range of elements of the whole input.
  Range part(int node, int local_rank) const {
    const Range share = shares_[layout_.rank_at(node, local_rank)];
    const std::size_t begin = std::min(share.begin + begin_, share.end);
    return {begin, std::min(begin + per_rank_, share.end)};
  }
  const std::vector<std::size_t>& column_counts() const { return column_counts_; }
  /// The number of elements that `column` reduces for the ranks of each node, by node.
  const std::vector<std::size_t>& counts_of(int column) const {
    return counts_[static_cast<std::size_t>(column)];
  }
  std::size_t total() const {
    return std::accumulate(column_counts_.begin(), column_counts_.end(), std::size_t{0});
  }
  // Copies the parts of all ranks to `to`, sorted by column, node and local rank.
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

// On a node with more ranks than columns, some ranks have no column, and ranks with a column hold
// the results for them. The ranks of the node therefore gather the results of all columns, and each
// rank copies its own part to `output`. Collective over the node.
void hand_over(Hierarchy& h, const ScatterRound& round, std::size_t width, const std::byte* piece,
               std::byte* output) {
  const int node = h.layout.node();
  std::vector<std::size_t> bytes_of;
  for (int c = 0; c < h.layout.columns(); ++c)
    bytes_of.push_back(round.counts_of(c)[static_cast<std::size_t>(node)] * width);
  bytes_of = h.layout.for_local_ranks(bytes_of);
  const PartOffsets parts(bytes_of);
  std::byte* gathered = ensure_size(h.block, parts.total());
  h.node.allgather({piece, bytes_of[static_cast<std::size_t>(h.layout.local_rank())]}, bytes_of,
                   {gathered, parts.total()});
  const int column = h.layout.local_rank() % h.layout.columns();
  std::size_t at = parts[column].begin;
  for (int l = column; l < h.layout.local_rank(); l += h.layout.columns())
    at += round.part(node, l).count() * width;
  const std::size_t bytes = round.part(node, h.layout.local_rank()).count() * width;
  if (bytes != 0) std::memcpy(output, gathered + at, bytes);
}

void run_round(Hierarchy& h, const ScatterRound& round, const std::byte* input, DataType type,
               std::byte* output, ReduceOp op) {
  const std::size_t width = size_of(type);
  const NodeLayout& layout = h.layout;
  std::byte* packed = ensure_size(h.block, round.total() * width);
  round.pack(input, width, packed);
  const auto count_of = layout.for_local_ranks(round.column_counts());
  const std::size_t shard_count = count_of[static_cast<std::size_t>(layout.local_rank())];
  std::byte* shard = ensure_size(h.shards[0], shard_count * width);
  h.node.reduce_scatter(packed, type, count_of, shard, without_division(op));

  const bool is_own_column_all = layout.local_size(layout.node()) == layout.columns();
  std::byte* piece = output;
  if (h.column != nullptr) {
    const auto& counts = round.counts_of(layout.local_rank());
    const std::size_t piece_count = counts[static_cast<std::size_t>(layout.node())];
    if (!is_own_column_all) piece = ensure_size(h.piece, piece_count * width);
    h.column->reduce_scatter(shard, type, counts, piece, without_division(op));
    divide_if_average(type, op, piece, piece_count, layout.size());
  }
  if (!is_own_column_all) hand_over(h, round, width, piece, output);
}

}  // namespace

// Works in rounds, so the staging memory does not grow with the input.
void hierarchical_reduce_scatter(Hierarchy& h, const std::byte* input, DataType type,
                                 std::span<const std::size_t> count_of, std::byte* output,
                                 ReduceOp op) {
  constexpr std::size_t kSmallestPart = 1024;
  const std::size_t width = size_of(type);
  const PartOffsets shares(count_of);
  const std::size_t per_rank = std::max(h.block_bytes / width / count_of.size(), kSmallestPart);
  const std::size_t largest = *std::max_element(count_of.begin(), count_of.end());
  for (std::size_t begin = 0; begin < largest; begin += per_rank) {
    const ScatterRound round(h.layout, shares, begin, per_rank);
    run_round(h, round, input, type, output, op);
    output += round.part(h.layout.node(), h.layout.local_rank()).count() * width;
  }
}

// Compared with an exchange of shards, each node sends fewer messages with more bytes each, which
// takes less time for small tensors.
void leader_allreduce(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op) {
  h.node.allreduce(buffer, without_division(op));
  if (h.layout.local_rank() == 0) column_allreduce(h, buffer, op);
  h.node.broadcast(buffer, 0);
}

namespace {

// An allreduce in blocks (see hierarchical_allreduce()). While block k is exchanged between nodes,
// the ranks of the node gather block k-1 and reduce block k+1. There is no background thread: the
// waits inside the node advance the exchange (WhileWaiting). Two shard buffers suffice, because
// block k-1 is gathered before block k+1 is reduced into the same shard buffer.
class BlockPipeline {
 public:
  BlockPipeline(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op)
      : h_(h),
        buffer_(buffer),
        op_(op),
        width_(buffer.element_bytes()),
        block_count_(std::max<std::size_t>(h.block_bytes / width_, 1)),
        blocks_((buffer.count() + block_count_ - 1) / block_count_) {}

  // The flow runs one plan at a time, so the exchange of a block ends before the exchange of the
  // next block starts. The node phases run one after the other, so they can share h_.block.
  void run() {
    for (std::size_t k = 0; k <= blocks_; ++k) {
      if (k < blocks_) reduce_in_node(k);
      if (k > 0) finish_column();
      if (k < blocks_) start_column(k);
      if (k > 0) gather_in_node(k - 1);
    }
  }

 private:
  Range range(std::size_t k) const {
    const std::size_t begin = k * block_count_;
    return {begin, std::min(begin + block_count_, buffer_.count())};
  }
  // Returns the number of elements of block k that each rank of the node owns.
  std::vector<std::size_t> shard_counts(std::size_t k) const {
    const auto columns = static_cast<std::size_t>(h_.layout.columns());
    return h_.layout.for_local_ranks(chunk_sizes(range(k).count(), columns));
  }
  // Returns this rank's shard of block k, which is in staging memory.
  ScatteredBuffer shard(std::size_t k) {
    const std::size_t count = shard_counts(k)[static_cast<std::size_t>(h_.layout.local_rank())];
    return {buffer_.type(), ensure_size(h_.shards[k % 2], count * width_), count};
  }
  bool advance_column() { return on_wire_.ends != nullptr && h_.flow->progress(); }

  void reduce_in_node(std::size_t k) {
    const WhileWaiting meanwhile([this] { return advance_column(); });
    const std::byte* input = contiguous_address(buffer_, range(k));
    if (input == nullptr) {
      std::byte* staged = ensure_size(h_.block, range(k).count() * width_);
      gather(buffer_, range(k), staged);
      input = staged;
    }
    std::byte* const output = ensure_size(h_.shards[k % 2], shard(k).bytes());
    h_.node.reduce_scatter(input, buffer_.type(), shard_counts(k), output, without_division(op_));
  }

  void start_column(std::size_t k) {
    if (h_.column == nullptr) return;
    // With a single block, there are no node phases of other blocks to overlap with.
    if (blocks_ == 1 || !h_.may_overlap) return column_allreduce(h_, shard(k), op_);
    // on_wire_values_ must not change until finish_column(), because the flow refers to it.
    on_wire_values_.emplace(shard(k));
    on_wire_ = prepare_ring_allreduce(h_.ring(), *on_wire_values_, op_);
    if (on_wire_.ends != nullptr) h_.flow->start(on_wire_.plan, *on_wire_.ends);
  }

  void finish_column() {
    if (on_wire_.ends != nullptr) h_.flow->finish();
    on_wire_.ends.reset();
  }

  void gather_in_node(std::size_t k) {
    const WhileWaiting meanwhile([this] { return advance_column(); });
    std::byte* const address = contiguous_address(buffer_, range(k));
    std::byte* const output =
        address != nullptr ? address : ensure_size(h_.block, range(k).count() * width_);
    std::vector<std::size_t> bytes_of = shard_counts(k);
    for (std::size_t& bytes : bytes_of) bytes *= width_;
    h_.node.allgather({h_.shards[k % 2].data(), shard(k).bytes()}, bytes_of,
                      {output, range(k).count() * width_});
    if (address == nullptr) scatter(buffer_, range(k), output);
  }

  Hierarchy& h_;
  const ScatteredBuffer& buffer_;
  const ReduceOp op_;
  const std::size_t width_;
  const std::size_t block_count_;
  const std::size_t blocks_;
  std::optional<MappedBuffer> on_wire_values_;
  PreparedFlow on_wire_;
};

}  // namespace

void hierarchical_allreduce(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op) {
  if (buffer.count() > 0) BlockPipeline(h, buffer, op).run();
}

}  // namespace horo::collectives

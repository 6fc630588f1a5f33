#include "collectives/hierarchical/hierarchical_allreduce.h"

#include <algorithm>

#include "collectives/chunks.h"
#include "collectives/hierarchical/column_allreduce.h"
#include "collectives/stretches.h"
#include "horo/base/while_waiting.h"

namespace horo::collectives {
namespace {

class BlockPipeline {
 public:
  BlockPipeline(Hierarchy& h, const ScatteredBuffer& buffer, ReduceOp op)
      : h_(h),
        buffer_(buffer),
        op_(op),
        width_(buffer.element_bytes()),
        block_count_(std::max<std::size_t>(h.block_bytes / width_, 1)),
        blocks_((buffer.count() + block_count_ - 1) / block_count_) {}

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
  // How many elements of block k each rank of the node owns.
  std::vector<std::size_t> shard_counts(std::size_t k) const {
    const auto columns = static_cast<std::size_t>(h_.layout.columns());
    return h_.layout.for_local_ranks(chunk_sizes(range(k).count(), columns));
  }
  // This rank's elements of block k.
  ScatteredBuffer shard(std::size_t k) {
    const std::size_t count = shard_counts(k)[static_cast<std::size_t>(h_.layout.local_rank())];
    return {buffer_.type(), at_least(h_.shards[k % 2], count * width_), count};
  }
  bool advance_column() { return on_wire_.ends != nullptr && h_.flow->progress(); }

  void reduce_in_node(std::size_t k) {
    const WhileWaiting meanwhile([this] { return advance_column(); });
    const std::byte* input = contiguous_address(buffer_, range(k));
    if (input == nullptr) {
      std::byte* staged = at_least(h_.block, range(k).count() * width_);
      gather(buffer_, range(k), staged);
      input = staged;
    }
    std::byte* const output = at_least(h_.shards[k % 2], shard(k).bytes());
    h_.node.reduce_scatter(input, buffer_.type(), shard_counts(k), output, without_division(op_));
  }

  void start_column(std::size_t k) {
    if (h_.column == nullptr) return;
    // A single block has nothing to go beside.
    if (blocks_ == 1 || !h_.may_overlap) return column_allreduce(h_, shard(k), op_);
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
        address != nullptr ? address : at_least(h_.block, range(k).count() * width_);
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

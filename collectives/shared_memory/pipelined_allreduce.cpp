#include "collectives/shared_memory/pipelined_allreduce.h"

#include <algorithm>

#include "collectives/line_chunks.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {
namespace {

class Pipeline {
 public:
  Pipeline(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
           std::size_t segment_bytes, Stores stores)
      : memory_(memory),
        buffer_(buffer),
        op_(op),
        stores_(stores),
        element_bytes_(buffer.element_bytes()),
        segment_count_(segment_bytes / element_bytes_),
        segments_(
            static_cast<std::uint32_t>((buffer.count() + segment_count_ - 1) / segment_count_)),
        first_step_(memory.begin_steps(segments_)),
        sources_(memory.size()) {}

  void run() {
    for (std::uint32_t k = 0; k < segments_ + 2; ++k) {
      if (k < segments_) copy_in(k);
      if (k >= 1 && k <= segments_) reduce_own(k - 1);
      if (k >= 2) copy_out(k - 2);
    }
  }

 private:
  Range segment(std::uint32_t k) const {
    const std::size_t begin = k * segment_count_;
    return {begin, std::min(begin + segment_count_, buffer_.count())};
  }
  // Elements of segment `k` that `rank` owns, relative to the segment's begin.
  Range chunk(std::uint32_t k, int rank) const {
    return chunk_of_lines(segment(k).count(), element_bytes_, memory_.size(), rank);
  }

  void copy_in(std::uint32_t k) {
    const std::uint32_t step = first_step_ + k;
    memory_.wait_free(step);
    std::byte* slot = memory_.slot(memory_.rank(), step);
    const std::size_t base = segment(k).begin;
    const Range own = chunk(k, memory_.rank());
    for (const Range range : {Range{0, own.begin}, Range{own.end, segment(k).count()}}) {
      buffer_.for_each_stretch(base + range.begin, base + range.end,
                               [&](const std::byte* from, std::size_t first, std::size_t n) {
                                 copy(slot + (range.begin + first) * element_bytes_, from,
                                      n * element_bytes_, stores_);
                               });
    }
    memory_.post(step);
  }

  void reduce_own(std::uint32_t k) {
    const std::uint32_t step = first_step_ + k;
    for (int peer = 0; peer < memory_.size(); ++peer)
      if (peer != memory_.rank()) memory_.wait_posted(peer, step);
    const Range own = chunk(k, memory_.rank());
    const std::size_t base = segment(k).begin;
    buffer_.for_each_stretch(
        base + own.begin, base + own.end, [&](std::byte* mine, std::size_t first, std::size_t n) {
          const std::size_t offset = (own.begin + first) * element_bytes_;
          for (int r = 0; r < memory_.size(); ++r)
            sources_[r] = r == memory_.rank() ? mine : memory_.slot(r, step) + offset;
          // The own slot's own chunk held no input, so it is free for the result.
          std::byte* const outs[] = {memory_.slot(memory_.rank(), step) + offset, mine};
          reduce(buffer_.type(), op_, sources_, n, memory_.size(), outs, stores_);
        });
    memory_.publish_reduced(step);
  }

  void copy_out(std::uint32_t k) {
    const std::uint32_t step = first_step_ + k;
    const std::size_t base = segment(k).begin;
    // Starting behind the own chunk spreads the ranks over different peers.
    for (int i = 1; i < memory_.size(); ++i) {
      const int peer = (memory_.rank() + i) % memory_.size();
      memory_.wait_reduced(peer, step);
      const Range theirs = chunk(k, peer);
      const std::byte* slot = memory_.slot(peer, step);
      buffer_.for_each_stretch(base + theirs.begin, base + theirs.end,
                               [&](std::byte* to, std::size_t first, std::size_t n) {
                                 copy(to, slot + (theirs.begin + first) * element_bytes_,
                                      n * element_bytes_, Stores::kPlain);
                               });
    }
    memory_.consume(step);
  }

  NodeMemory& memory_;
  const ScatteredBuffer& buffer_;
  const ReduceOp op_;
  const Stores stores_;
  const std::size_t element_bytes_;
  const std::size_t segment_count_;
  const std::uint32_t segments_;
  const std::uint32_t first_step_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores) {
  if (buffer.count() > 0) Pipeline(memory, buffer, op, segment_bytes, stores).run();
}

}  // namespace horo::collectives

#include "collectives/shared_memory/pipelined_allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "collectives/line_chunks.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {
namespace {

// Values lie in a slot as they lie in the memory that they come from, counted from the begin of a
// cache line: copies then read and write whole lines, which streaming stores need to be fast.
constexpr std::size_t kLine = 64;
std::uint32_t shift_of(const ScatteredBuffer& buffer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(buffer.pieces().front().data) %
                                    kLine);
}

// Segments between looks at the clock.
constexpr std::uint32_t kStretch = 4;

class Pipeline {
 public:
  Pipeline(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
           std::size_t segment_bytes, Stores stores, StoreChooser& chooser)
      : memory_(memory),
        buffer_(buffer),
        op_(op),
        stores_(stores),
        chooser_(chooser),
        doubts_(chooser.doubts()),
        element_bytes_(buffer.element_bytes()),
        segment_count_(segment_bytes / element_bytes_),
        segments_(
            static_cast<std::uint32_t>((buffer.count() + segment_count_ - 1) / segment_count_)),
        first_step_(memory.begin_steps(segments_, std::min(segment_bytes, buffer.bytes()) + kLine)),
        shifts_(memory.size()),
        sources_(memory.size()) {
    shifts_[memory.rank()] = shift_of(buffer);
    memory.set_note({shifts_[memory.rank()], doubts_ ? 1u : 0u});
    chooser.begin_stretches();
  }

  void run() {
    for (std::uint32_t k = 0; k < segments_ + 2; ++k) {
      if (k < segments_) copy_in(k);
      if (k >= 1 && k <= segments_) reduce_own(k - 1);
      if (k >= 2) copy_out(k - 2);
      watch_pace(k);
    }
    if (doubts_) chooser_.probe_next();
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

  std::byte* slot(int rank, std::uint32_t step) const {
    return memory_.slot(rank, step) + shifts_[rank];
  }

  void copy_in(std::uint32_t k) {
    const std::uint32_t step = first_step_ + k;
    memory_.wait_free(step);
    std::byte* own_slot = slot(memory_.rank(), step);
    const std::size_t base = segment(k).begin;
    const Range own = chunk(k, memory_.rank());
    for (const Range range : {Range{0, own.begin}, Range{own.end, segment(k).count()}}) {
      buffer_.for_each_stretch(base + range.begin, base + range.end,
                               [&](const std::byte* from, std::size_t first, std::size_t n) {
                                 copy(own_slot + (range.begin + first) * element_bytes_, from,
                                      n * element_bytes_, stores_);
                               });
    }
    fence(stores_);
    memory_.post(step);
  }

  void reduce_own(std::uint32_t k) {
    const std::uint32_t step = first_step_ + k;
    for (int peer = 0; peer < memory_.size(); ++peer)
      if (peer != memory_.rank()) wait_posted(peer, k);
    const Range own = chunk(k, memory_.rank());
    const std::size_t base = segment(k).begin;
    buffer_.for_each_stretch(
        base + own.begin, base + own.end, [&](std::byte* mine, std::size_t first, std::size_t n) {
          const std::size_t offset = (own.begin + first) * element_bytes_;
          for (int r = 0; r < memory_.size(); ++r)
            sources_[r] = r == memory_.rank() ? mine : slot(r, step) + offset;
          // The own slot's own chunk held no input, so it is free for the result.
          std::byte* const outs[] = {slot(memory_.rank(), step) + offset, mine};
          reduce(buffer_.type(), op_, sources_, n, memory_.size(), outs, stores_);
        });
    fence(stores_);
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
      const std::byte* reduced = slot(peer, step);
      buffer_.for_each_stretch(base + theirs.begin, base + theirs.end,
                               [&](std::byte* to, std::size_t first, std::size_t n) {
                                 copy(to, reduced + (theirs.begin + first) * element_bytes_,
                                      n * element_bytes_, Stores::kPlain);
                               });
    }
    memory_.consume(step);
  }

  void wait_posted(int peer, std::uint32_t k) {
    memory_.wait_posted(peer, first_step_ + k);
    if (k > 0) return;
    const NodeMemory::Note note = memory_.note_of(peer);
    shifts_[peer] = note.shift;
    doubts_ |= note.doubts != 0;
  }

  // From iteration 2 on, all ranks have come and the pipeline is full.
  void watch_pace(std::uint32_t k) {
    if (k % kStretch != 2 || k > segments_ || memory_.only_naps()) return;
    const auto now = std::chrono::steady_clock::now();
    if (k > 2)
      stores_ = chooser_.after_stretch(stores_, kStretch * segment_count_ * element_bytes_,
                                       std::chrono::duration<double>(now - stretch_start_).count());
    stretch_start_ = now;
  }

  NodeMemory& memory_;
  const ScatteredBuffer& buffer_;
  const ReduceOp op_;
  Stores stores_;
  StoreChooser& chooser_;
  bool doubts_;  // of any rank
  const std::size_t element_bytes_;
  const std::size_t segment_count_;
  const std::uint32_t segments_;
  const std::uint32_t first_step_;
  std::chrono::steady_clock::time_point stretch_start_;
  std::vector<std::uint32_t> shifts_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores, StoreChooser& chooser) {
  if (buffer.count() > 0) Pipeline(memory, buffer, op, segment_bytes, stores, chooser).run();
}

}  // namespace horo::collectives

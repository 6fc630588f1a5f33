#include "collectives/shared_memory/shared_memory_allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {

namespace {

// Returns the offset of the first piece of the buffer from the start of a cache line. The values
// start at the same offset in each slot. Copies between this piece and the slots then read and
// write whole cache lines, except at their ends. Streaming stores are fast only for whole lines.
std::uint32_t shift_of(const ScatteredBuffer& buffer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(buffer.pieces().front().data) %
                                    kCacheLineBytes);
}

// The number of segments between two samples of the clock.
constexpr std::uint32_t kSegmentsPerSample = 4;

// Iteration k copies segment k in, reduces segment k-1 and copies segment k-2 out. The stages work
// on different segments, so a rank rarely waits for a slower rank. With four slots, iteration k
// overwrites the slot of segment k-4, which this rank has copied out in iteration k-2. wait_free()
// ensures that its peers have also copied that segment out. Every wait is for a flag that a peer
// publishes in an earlier iteration, so the ranks cannot deadlock.
class Pipeline {
 public:
  Pipeline(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
           std::size_t segment_bytes, Stores stores, StoreChooser& chooser)
      : memory_(memory),
        buffer_(buffer),
        op_(op),
        stores_(stores),
        chooser_(chooser),
        wants_probe_(chooser.wants_probe()),
        element_bytes_(buffer.element_bytes()),
        segment_count_(segment_bytes / element_bytes_),
        segments_(
            static_cast<std::uint32_t>((buffer.count() + segment_count_ - 1) / segment_count_)),
        first_step_(memory.begin_steps(segments_,
                                       std::min(segment_bytes, buffer.bytes()) + kCacheLineBytes)),
        shifts_(memory.size()),
        sources_(memory.size()) {
    shifts_[memory.rank()] = shift_of(buffer);
    memory.set_note({shifts_[memory.rank()], wants_probe_ ? 1u : 0u});
    chooser.begin_samples();
  }

  void run() {
    for (std::uint32_t k = 0; k < segments_ + 2; ++k) {
      if (k < segments_) copy_in(k);
      if (k >= 1 && k <= segments_) reduce_own(k - 1);
      if (k >= 2) copy_out(k - 2);
      sample_pace(k);
    }
    if (wants_probe_) chooser_.probe_next();
  }

 private:
  Range segment(std::uint32_t k) const {
    const std::size_t begin = k * segment_count_;
    return {begin, std::min(begin + segment_count_, buffer_.count())};
  }
  // The chunk of segment `k` that `rank` owns, relative to the start of the segment.
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
      buffer_.for_each_span(base + range.begin, base + range.end,
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
    buffer_.for_each_span(base + own.begin, base + own.end,
                          [&](std::byte* mine, std::size_t first, std::size_t n) {
                            const std::size_t offset = (own.begin + first) * element_bytes_;
                            for (int r = 0; r < memory_.size(); ++r)
                              sources_[r] = r == memory_.rank() ? mine : slot(r, step) + offset;
                            // copy_in() leaves the own chunk of the slot unused, so the result is
                            // stored there.
                            std::byte* const outs[] = {slot(memory_.rank(), step) + offset, mine};
                            reduce(buffer_.type(), op_, sources_, n, memory_.size(), outs, stores_);
                          });
    fence(stores_);
    memory_.publish_reduced(step);
  }

  void copy_out(std::uint32_t k) {
    const std::uint32_t step = first_step_ + k;
    const std::size_t base = segment(k).begin;
    // Starts with the next rank, so that the ranks read from different peers at the same time.
    for (int i = 1; i < memory_.size(); ++i) {
      const int peer = (memory_.rank() + i) % memory_.size();
      memory_.wait_reduced(peer, step);
      const Range theirs = chunk(k, peer);
      const std::byte* reduced = slot(peer, step);
      buffer_.for_each_span(base + theirs.begin, base + theirs.end,
                            [&](std::byte* to, std::size_t first, std::size_t n) {
                              copy(to, reduced + (theirs.begin + first) * element_bytes_,
                                   n * element_bytes_, Stores::kPlain);
                            });
    }
    memory_.consume(step);
  }

  // The note of a peer is valid after its first post(). Every rank reads the notes of all peers, so
  // wants_probe_ ends with the same value on all ranks.
  void wait_posted(int peer, std::uint32_t k) {
    memory_.wait_posted(peer, first_step_ + k);
    if (k > 0) return;
    const NodeMemory::Note note = memory_.note_of(peer);
    shifts_[peer] = note.shift;
    wants_probe_ |= note.wants_probe != 0;
  }

  // At the end of iteration 2, all ranks have entered the collective and the pipeline is full.
  // Earlier samples would include the wait for ranks that enter late.
  void sample_pace(std::uint32_t k) {
    if (k % kSegmentsPerSample != 2 || k > segments_ || memory_.sleeps_at_once()) return;
    const auto now = std::chrono::steady_clock::now();
    if (k > 2)
      stores_ = chooser_.add_sample(stores_, kSegmentsPerSample * segment_count_ * element_bytes_,
                                    std::chrono::duration<double>(now - sample_start_).count());
    sample_start_ = now;
  }

  NodeMemory& memory_;
  const ScatteredBuffer& buffer_;
  const ReduceOp op_;
  Stores stores_;
  StoreChooser& chooser_;
  bool wants_probe_;  // at the end: whether any rank requests a probe
  const std::size_t element_bytes_;
  const std::size_t segment_count_;
  const std::uint32_t segments_;
  const std::uint32_t first_step_;
  std::chrono::steady_clock::time_point sample_start_;
  std::vector<std::uint32_t> shifts_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

void pipelined_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op,
                         std::size_t segment_bytes, Stores stores, StoreChooser& chooser) {
  if (buffer.count() > 0) Pipeline(memory, buffer, op, segment_bytes, stores, chooser).run();
}

// Needs one wait per peer in all, where the pipeline needs three per segment and peer. The work of
// each rank grows with the number of ranks, so this algorithm is for small buffers.
void direct_allreduce(NodeMemory& memory, const ScatteredBuffer& buffer, ReduceOp op, Stores stores,
                      std::vector<std::byte>& scratch) {
  const std::uint32_t exchange = memory.begin_direct();
  const std::size_t bytes = buffer.bytes();
  const auto size = static_cast<std::size_t>(memory.size());
  // The copy below may overwrite the values of exchange e-2, where e is the number of this
  // exchange. No peer still reads these values. This rank has completed exchange e-1, so every peer
  // has posted it. A peer posts exchange e-1 only after it has read all values of exchange e-2.
  std::byte* own = memory.direct_buffer(memory.rank(), exchange, bytes);
  const Stores own_stores = bytes <= Flag::kInlineBytes ? Stores::kPlain : stores;
  buffer.for_each_span(
      0, buffer.count(), [&](const std::byte* from, std::size_t first, std::size_t n) {
        copy(own + first * buffer.element_bytes(), from, n * buffer.element_bytes(), own_stores);
      });
  fence(own_stores);
  memory.post_direct(exchange);

  const std::byte* few_sources[16];
  std::vector<const std::byte*> many_sources(size > 16 ? size : 0);
  const std::span<const std::byte*> sources(size > 16 ? many_sources.data() : few_sources, size);
  for (std::size_t peer = 0; peer < size; ++peer) {
    memory.wait_direct(static_cast<int>(peer), exchange);
    sources[peer] = memory.direct_buffer(static_cast<int>(peer), exchange, bytes);
  }
  if (buffer.pieces().size() == 1) {
    reduce(buffer.type(), op, sources, buffer.count(), size, buffer.pieces()[0].data,
           Stores::kPlain);
    return;
  }
  if (scratch.size() < bytes) scratch.resize(bytes);
  reduce(buffer.type(), op, sources, buffer.count(), size, scratch.data(), Stores::kPlain);
  buffer.for_each_span(0, buffer.count(), [&](std::byte* to, std::size_t first, std::size_t n) {
    copy(to, scratch.data() + first * buffer.element_bytes(), n * buffer.element_bytes(),
         Stores::kPlain);
  });
}

}  // namespace horo::collectives

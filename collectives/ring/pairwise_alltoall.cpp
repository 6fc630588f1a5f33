#include "collectives/ring/pairwise_alltoall.h"

#include "collectives/ring/ring_schedule.h"

namespace horo::collectives {
namespace {

// A block cut into segments, as both its ends know it: they know its size.
template <typename Byte>
class SegmentedBlock {
 public:
  SegmentedBlock(std::span<Byte> block, std::size_t largest_segment)
      : block_(block), segment_bytes_(segment_elements(block.size(), 1, largest_segment)) {}
  std::size_t segments() const {
    return block_.empty() ? 0 : segments_covering(block_.size(), segment_bytes_);
  }
  std::span<Byte> operator[](std::size_t index) const {
    const Range range = segment_of({0, block_.size()}, index, segment_bytes_);
    return block_.subspan(range.begin, range.count());
  }

 private:
  std::span<Byte> block_;
  std::size_t segment_bytes_;
};

class PairEnds : public FlowEnds {
 public:
  PairEnds(std::span<const std::byte> sent, std::span<std::byte> received,
           std::size_t segment_bytes)
      : sent_(sent, segment_bytes), received_(received, segment_bytes) {}

  std::size_t sends() const { return sent_.segments(); }
  std::size_t receives() const { return received_.segments(); }
  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    return sent_[send];
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte>) override {
    return received_[receive];
  }
  void arrived(std::size_t, std::span<const std::byte>) override {}

 private:
  SegmentedBlock<const std::byte> sent_;
  SegmentedBlock<std::byte> received_;
};

}  // namespace

void pairwise_alltoall(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                       const AlltoallBlocks& blocks) {
  blocks.copy_own(rank);
  for (int distance = 1; distance < size; ++distance) {
    SegmentFlow::Plan plan;
    plan.from = (rank + size - distance) % size;
    plan.to = (rank + distance) % size;
    PairEnds ends(blocks.to(plan.to), blocks.from(plan.from), segment_bytes);
    plan.receives = ends.receives();
    plan.sends = plan.lead = ends.sends();
    plan.what = "an alltoall";
    flow.run(plan, ends);
  }
}

}  // namespace horo::collectives

#include "collectives/ring/chain_broadcast.h"

#include "collectives/ring/ring_schedule.h"
#include "collectives/stretches.h"

namespace horo::collectives {
namespace {

class BroadcastEnds : public FlowEnds {
 public:
  BroadcastEnds(const ScatteredBuffer& buffer, std::size_t segment_count)
      : buffer_(buffer), segment_count_(segment_count) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override {
    const Range range = range_of(send);
    const std::size_t bytes = range.count() * buffer_.element_bytes();
    if (const std::byte* address = contiguous_address(buffer_, range)) return {address, bytes};
    gather(buffer_, range, slot.data());
    return slot.first(bytes);
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    const Range range = range_of(receive);
    const std::size_t bytes = range.count() * buffer_.element_bytes();
    std::byte* address = contiguous_address(buffer_, range);
    return address != nullptr ? std::span(address, bytes) : slot.first(bytes);
  }
  void arrived(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = range_of(receive);
    if (contiguous_address(buffer_, range) == nullptr) scatter(buffer_, range, bytes.data());
  }

 private:
  Range range_of(std::size_t segment) const {
    return segment_of({0, buffer_.count()}, segment, segment_count_);
  }
  const ScatteredBuffer& buffer_;
  std::size_t segment_count_;
};

}  // namespace

void chain_broadcast(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                     const ScatteredBuffer& buffer, int root) {
  if (size == 1 || buffer.count() == 0) return;
  const std::size_t segment_count =
      segment_elements(buffer.count(), buffer.element_bytes(), segment_bytes);
  const std::size_t segments = segments_covering(buffer.count(), segment_count);
  const int place = (rank - root + size) % size;
  BroadcastEnds ends(buffer, segment_count);
  SegmentFlow::Plan plan;
  plan.from = (rank + size - 1) % size;
  plan.to = (rank + 1) % size;
  plan.receives = place == 0 ? 0 : segments;
  plan.sends = place == size - 1 ? 0 : segments;
  plan.lead = place == 0 ? segments : 0;
  plan.slot_bytes = segment_count * buffer.element_bytes();
  plan.what = "a broadcast";
  flow.run(plan, ends);
}

}  // namespace horo::collectives

#include "collectives/ring/ring_allreduce.h"

#include "collectives/ring/allreduce_ends.h"
#include "collectives/stretches.h"

namespace horo::collectives {
namespace {

// Segments travel as they lie, from and to their place where that is in one piece.
class PlainAllreduceEnds : public AllreduceEnds {
 public:
  using AllreduceEnds::AllreduceEnds;

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override {
    const Range range = sent_range(send);
    const std::size_t bytes = range.count() * buffer().element_bytes();
    if (const std::byte* address = contiguous_address(buffer(), range)) return {address, bytes};
    gather(buffer(), range, slot.data());
    return slot.first(bytes);
  }

  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    const Range range = received_range(receive);
    const std::size_t bytes = range.count() * buffer().element_bytes();
    std::byte* address = is_reducing(receive) ? nullptr : contiguous_address(buffer(), range);
    return address != nullptr ? std::span(address, bytes) : slot.first(bytes);
  }

  void arrived(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = received_range(receive);
    if (is_reducing(receive)) return add(receive, range, bytes.data());
    if (contiguous_address(buffer(), range) == nullptr) scatter(buffer(), range, bytes.data());
  }

  bool may_receive(std::size_t receive, std::size_t sends_done) const override {
    return is_reducing(receive) || replaced_send(receive) < sends_done;
  }
};

}  // namespace

void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op) {
  if (size == 1 || buffer.count() == 0) return;
  const std::size_t largest = chunk_of(buffer.count(), static_cast<std::size_t>(size), 0).count();
  const std::size_t segment_count =
      segment_elements(largest, buffer.element_bytes(), segment_bytes);
  const RingSchedule schedule(rank, size, segments_covering(largest, segment_count));
  PlainAllreduceEnds ends(schedule, size, segment_count, buffer, op);
  flow.run(allreduce_plan(schedule, segment_count * buffer.element_bytes()), ends);
}

}  // namespace horo::collectives

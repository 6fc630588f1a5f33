#include "collectives/ring/ring_allreduce.h"

#include "collectives/chunks.h"
#include "collectives/ring/narrow_allreduce_ends.h"
#include "collectives/ring/plain_allreduce_ends.h"

namespace horo::collectives {

PreparedFlow prepare_ring_allreduce(const RingAllreduce& ring, const MappedBuffer& buffer,
                                    ReduceOp op) {
  if (ring.size == 1 || buffer.own().count() == 0) return {};
  const bool is_narrow = ring.wire && buffer.own().type() == DataType::kFloat32;
  const std::size_t width =
      is_narrow ? NarrowAllreduceEnds::kElementBytes : buffer.own().element_bytes();
  const std::vector<std::size_t> sizes =
      chunk_sizes(buffer.own().count(), static_cast<std::size_t>(ring.size));
  const std::size_t segment_count = segment_elements(sizes.front(), width, ring.segment_bytes);
  const RingSegments segments(ring.rank, ring.size, PartOffsets(sizes), sizes.front(),
                              segment_count);
  const auto ranks = static_cast<std::size_t>(ring.ranks);
  PreparedFlow flow;
  flow.plan =
      segments.plan(segments.schedule().allreduce_units(), segment_count * width, "an allreduce");
  if (is_narrow)
    flow.ends = std::make_unique<NarrowAllreduceEnds>(segments, buffer, op, ranks, *ring.wire);
  else
    flow.ends = std::make_unique<PlainAllreduceEnds>(segments, buffer, op, ranks);
  return flow;
}

void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op, std::optional<Wire> wire) {
  const MappedBuffer own(buffer);
  const PreparedFlow prepared =
      prepare_ring_allreduce({rank, size, segment_bytes, size, wire}, own, op);
  if (prepared.ends != nullptr) flow.run(prepared.plan, *prepared.ends);
}

}  // namespace horo::collectives

#include "collectives/ring/ring_allgather.h"

#include <algorithm>
#include <cstring>

#include "collectives/part_offsets.h"
#include "collectives/ring/ring_segments.h"

namespace horo::collectives {
namespace {

// An allgather is the second half of an allreduce: it begins at step n - 1 of the schedule.
class AllgatherEnds : public FlowEnds {
 public:
  AllgatherEnds(const RingSegments& segments, std::span<std::byte> output)
      : segments_(segments), output_(output) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    return part(segments_.sent(unit_of(send)));
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte>) override {
    return part(segments_.received(unit_of(receive)));
  }
  void arrived(std::size_t, std::span<const std::byte>) override {}

 private:
  std::size_t unit_of(std::size_t segment) const {
    return segment + segments_.schedule().reduce_units();
  }
  std::span<std::byte> part(Range range) const {
    return output_.subspan(range.begin, range.count());
  }

  RingSegments segments_;
  std::span<std::byte> output_;
};

}  // namespace

void ring_allgather(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                    std::span<std::byte> output) {
  const PartOffsets parts(bytes_of);
  std::byte* const own = output.data() + parts[rank].begin;
  if (!input.empty() && own != input.data()) std::memcpy(own, input.data(), input.size());
  const std::size_t largest = *std::max_element(bytes_of.begin(), bytes_of.end());
  if (size == 1 || largest == 0) return;
  const std::size_t segment = segment_elements(largest, 1, segment_bytes);
  const RingSegments segments(rank, size, parts, largest, segment);
  AllgatherEnds ends(segments, output);
  flow.run(segments.plan(segments.schedule().reduce_units(), 0, "an allgather"), ends);
}

}  // namespace horo::collectives

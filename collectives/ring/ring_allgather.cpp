#include "collectives/ring/ring_allgather.h"

#include <algorithm>
#include <cstring>

#include "collectives/part_offsets.h"
#include "collectives/ring/ring_schedule.h"

namespace horo::collectives {
namespace {

// An allgather is the second half of an allreduce: it begins at step n - 1 of the schedule.
class AllgatherEnds : public FlowEnds {
 public:
  AllgatherEnds(const RingSchedule& schedule, std::size_t segment_bytes, const PartOffsets& parts,
                std::span<std::byte> output)
      : schedule_(schedule), segment_bytes_(segment_bytes), parts_(parts), output_(output) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    const std::size_t unit = send + schedule_.reduce_units();
    return part(schedule_.sent_chunk(schedule_.step_of(unit)), unit);
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte>) override {
    const std::size_t unit = receive + schedule_.reduce_units();
    return part(schedule_.received_chunk(schedule_.step_of(unit)), unit);
  }
  void arrived(std::size_t, std::span<const std::byte>) override {}

 private:
  std::span<std::byte> part(int chunk, std::size_t unit) const {
    const Range range = segment_of(parts_[chunk], schedule_.segment_of(unit), segment_bytes_);
    return output_.subspan(range.begin, range.count());
  }

  RingSchedule schedule_;
  std::size_t segment_bytes_;
  const PartOffsets& parts_;
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
  const RingSchedule schedule(rank, size, segments_covering(largest, segment));
  AllgatherEnds ends(schedule, segment, parts, output);
  SegmentFlow::Plan plan;
  plan.from = schedule.left();
  plan.to = schedule.right();
  plan.receives = plan.sends = schedule.reduce_units();
  plan.lead = schedule.segments();
  plan.what = "an allgather";
  flow.run(plan, ends);
}

}  // namespace horo::collectives

#include "collectives/ring/ring_reduce_scatter.h"

#include <algorithm>

#include "collectives/part_offsets.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_schedule.h"

namespace horo::collectives {
namespace {

// The input stays as it is: partial sums that travel on wait in `scratch`, which holds one chunk.
class ReduceScatterEnds : public FlowEnds {
 public:
  struct Data {
    const std::byte* input;
    std::byte* output;
    std::byte* scratch;
    DataType type;
    ReduceOp op;
  };
  ReduceScatterEnds(const RingSchedule& schedule, int size, std::size_t segment_count,
                    const PartOffsets& parts, const Data& data)
      : schedule_(schedule),
        size_(static_cast<std::size_t>(size)),
        segment_count_(segment_count),
        parts_(parts),
        data_(data),
        width_(size_of(data.type)) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    const Range range = range_of(schedule_.sent_chunk(schedule_.step_of(send)), send);
    const std::byte* from =
        schedule_.step_of(send) == 0 ? data_.input + range.begin * width_ : scratch_of(send);
    return {from, range.count() * width_};
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    return slot.first(received_range(receive).count() * width_);
  }
  void arrived(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = received_range(receive);
    const bool is_last_hop = schedule_.step_of(receive) == size_ - 2;
    const ReduceOp op = data_.op == ReduceOp::kAverage && !is_last_hop ? ReduceOp::kSum : data_.op;
    const std::byte* sources[] = {bytes.data(), data_.input + range.begin * width_};
    std::byte* out = is_last_hop
                         ? data_.output + schedule_.segment_of(receive) * segment_count_ * width_
                         : scratch_of(receive);
    reduce(data_.type, op, sources, range.count(), size_, out, Stores::kPlain);
  }
  // The segment of the previous step must have left its place in the scratch.
  bool may_take(std::size_t receive, std::size_t sends_done) const override {
    return schedule_.step_of(receive) == 0 || receive < sends_done;
  }

 private:
  Range range_of(int chunk, std::size_t unit) const {
    return segment_of(parts_[chunk], schedule_.segment_of(unit), segment_count_);
  }
  Range received_range(std::size_t receive) const {
    return range_of(schedule_.received_chunk(schedule_.step_of(receive)), receive);
  }
  std::byte* scratch_of(std::size_t unit) const {
    return data_.scratch + schedule_.segment_of(unit) * segment_count_ * width_;
  }

  RingSchedule schedule_;
  std::size_t size_;
  std::size_t segment_count_;
  const PartOffsets& parts_;
  Data data_;
  std::size_t width_;
};

}  // namespace

void ring_reduce_scatter(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                         const std::byte* input, DataType type,
                         std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                         std::vector<std::byte>& scratch) {
  const PartOffsets parts(count_of);
  const std::size_t width = size_of(type);
  if (size == 1) return copy(output, input, parts.total() * width, Stores::kPlain);
  const std::size_t largest = *std::max_element(count_of.begin(), count_of.end());
  if (largest == 0) return;
  const std::size_t segment_count = segment_elements(largest, width, segment_bytes);
  if (size > 2 && scratch.size() < largest * width) scratch.resize(largest * width);
  const RingSchedule schedule(rank, size, segments_covering(largest, segment_count));
  ReduceScatterEnds ends(schedule, size, segment_count, parts,
                         {input, output, scratch.data(), type, op});
  SegmentFlow::Plan plan;
  plan.from = schedule.left();
  plan.to = schedule.right();
  plan.receives = plan.sends = schedule.reduce_units();
  plan.lead = schedule.segments();
  plan.slot_bytes = segment_count * width;
  plan.what = "a reduce_scatter";
  flow.run(plan, ends);
}

}  // namespace horo::collectives

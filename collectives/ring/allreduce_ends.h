#pragma once

#include <cstddef>

#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/ring/segment_flow.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Which elements each segment of a ring allreduce carries, and how a partial result is added:
/// common to every form in which they travel.
class AllreduceEnds : public FlowEnds {
 public:
  AllreduceEnds(const RingSchedule& schedule, int size, std::size_t segment_count,
                const ScatteredBuffer& buffer, ReduceOp op)
      : schedule_(schedule),
        size_(static_cast<std::size_t>(size)),
        segment_count_(segment_count),
        buffer_(buffer),
        op_(op) {}

 protected:
  const ScatteredBuffer& buffer() const { return buffer_; }
  /// Whether what is received is a partial result; otherwise it is complete.
  bool is_reducing(std::size_t receive) const { return receive < schedule_.reduce_units(); }
  /// Whether the result is complete once this has been added.
  bool is_last_hop(std::size_t receive) const { return schedule_.step_of(receive) == size_ - 2; }
  /// The send whose memory a complete segment replaces: the partial one of n - 1 steps before.
  std::size_t replaced_send(std::size_t receive) const {
    return receive - schedule_.reduce_units();
  }
  Range sent_range(std::size_t send) const {
    return range_of(schedule_.sent_chunk(schedule_.step_of(send)), send);
  }
  Range received_range(std::size_t receive) const {
    return range_of(schedule_.received_chunk(schedule_.step_of(receive)), receive);
  }
  /// Adds a partial result, in the buffer's type, to the elements `range`.
  void add(std::size_t receive, Range range, const std::byte* partial) {
    const ReduceOp op = op_ == ReduceOp::kAverage && !is_last_hop(receive) ? ReduceOp::kSum : op_;
    buffer_.for_each_stretch(
        range.begin, range.end, [&](std::byte* own, std::size_t first, std::size_t count) {
          const std::byte* sources[] = {partial + first * buffer_.element_bytes(), own};
          reduce(buffer_.type(), op, sources, count, size_, own, Stores::kPlain);
        });
  }

 private:
  Range range_of(int chunk, std::size_t unit) const {
    return segment_of(chunk_of(buffer_.count(), size_, static_cast<std::size_t>(chunk)),
                      schedule_.segment_of(unit), segment_count_);
  }

  RingSchedule schedule_;
  std::size_t size_;
  std::size_t segment_count_;
  const ScatteredBuffer& buffer_;
  ReduceOp op_;
};

/// The flow of an allreduce of this schedule.
inline SegmentFlow::Plan allreduce_plan(const RingSchedule& schedule, std::size_t slot_bytes) {
  SegmentFlow::Plan plan;
  plan.from = schedule.left();
  plan.to = schedule.right();
  plan.receives = plan.sends = schedule.allreduce_units();
  plan.lead = schedule.segments();
  plan.slot_bytes = slot_bytes;
  plan.what = "an allreduce";
  return plan;
}

}  // namespace horo::collectives

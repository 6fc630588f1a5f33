#include "collectives/ring/ring_allreduce.h"

#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/stretches.h"

namespace horo::collectives {
namespace {

class AllreduceEnds : public FlowEnds {
 public:
  AllreduceEnds(const RingSchedule& schedule, int size, std::size_t segment_count,
                const ScatteredBuffer& buffer, ReduceOp op)
      : schedule_(schedule),
        size_(static_cast<std::size_t>(size)),
        segment_count_(segment_count),
        buffer_(buffer),
        op_(op) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override {
    const Range range = range_of(schedule_.sent_chunk(schedule_.step_of(send)), send);
    const std::size_t bytes = range.count() * buffer_.element_bytes();
    if (const std::byte* address = contiguous_address(buffer_, range)) return {address, bytes};
    gather(buffer_, range, slot.data());
    return slot.first(bytes);
  }

  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    const Range range = received_range(receive);
    const std::size_t bytes = range.count() * buffer_.element_bytes();
    std::byte* address = is_reducing(receive) ? nullptr : contiguous_address(buffer_, range);
    return address != nullptr ? std::span(address, bytes) : slot.first(bytes);
  }

  void arrived(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = received_range(receive);
    if (is_reducing(receive)) return add(receive, range, bytes.data());
    if (contiguous_address(buffer_, range) == nullptr) scatter(buffer_, range, bytes.data());
  }

  // A complete chunk replaces the partial one that this rank sent n - 1 steps before.
  bool may_receive(std::size_t receive, std::size_t sends_done) const override {
    return is_reducing(receive) || receive - schedule_.reduce_units() < sends_done;
  }

 private:
  bool is_reducing(std::size_t receive) const { return receive < schedule_.reduce_units(); }
  Range range_of(int chunk, std::size_t unit) const {
    return segment_of(chunk_of(buffer_.count(), size_, static_cast<std::size_t>(chunk)),
                      schedule_.segment_of(unit), segment_count_);
  }
  Range received_range(std::size_t receive) const {
    return range_of(schedule_.received_chunk(schedule_.step_of(receive)), receive);
  }
  void add(std::size_t receive, Range range, const std::byte* partial) {
    const bool is_last_hop = schedule_.step_of(receive) == size_ - 2;
    const ReduceOp op = op_ == ReduceOp::kAverage && !is_last_hop ? ReduceOp::kSum : op_;
    buffer_.for_each_stretch(
        range.begin, range.end, [&](std::byte* own, std::size_t first, std::size_t count) {
          const std::byte* sources[] = {partial + first * buffer_.element_bytes(), own};
          reduce(buffer_.type(), op, sources, count, size_, own, Stores::kPlain);
        });
  }

  RingSchedule schedule_;
  std::size_t size_;
  std::size_t segment_count_;
  const ScatteredBuffer& buffer_;
  ReduceOp op_;
};

}  // namespace

void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op) {
  if (size == 1 || buffer.count() == 0) return;
  const std::size_t largest = chunk_of(buffer.count(), static_cast<std::size_t>(size), 0).count();
  const std::size_t segment_count =
      segment_elements(largest, buffer.element_bytes(), segment_bytes);
  const RingSchedule schedule(rank, size, segments_covering(largest, segment_count));
  AllreduceEnds ends(schedule, size, segment_count, buffer, op);
  SegmentFlow::Plan plan;
  plan.from = schedule.left();
  plan.to = schedule.right();
  plan.receives = plan.sends = schedule.allreduce_units();
  plan.lead = schedule.segments();
  plan.slot_bytes = segment_count * buffer.element_bytes();
  plan.what = "an allreduce";
  flow.run(plan, ends);
}

}  // namespace horo::collectives

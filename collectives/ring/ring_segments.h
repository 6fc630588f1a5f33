#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "collectives/part_offsets.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/ring/segment_flow.h"

namespace horo::collectives {

/// What each unit of a ring carries when the chunks are parts that lie one after the other: pure
/// arithmetic. Elements may be bytes.
class RingSegments {
 public:
  /// `parts`: one for each rank; the largest is cut into segments of `segment_count` elements, the
  /// others into as many.
  RingSegments(int rank, int size, PartOffsets parts, std::size_t largest,
               std::size_t segment_count)
      : schedule_(rank, size, segments_covering(largest, segment_count)),
        size_(static_cast<std::size_t>(size)),
        parts_(std::move(parts)),
        segment_count_(segment_count) {}

  const RingSchedule& schedule() const { return schedule_; }
  Range sent(std::size_t unit) const {
    return range_of(schedule_.sent_chunk(schedule_.step_of(unit)), unit);
  }
  Range received(std::size_t unit) const {
    return range_of(schedule_.received_chunk(schedule_.step_of(unit)), unit);
  }
  /// Whether the unit carries what its sender alone brings.
  bool is_first_hop(std::size_t unit) const { return schedule_.step_of(unit) == 0; }
  /// Whether the receiver completes what the unit carries.
  bool is_last_hop(std::size_t unit) const { return schedule_.step_of(unit) == size_ - 2; }
  /// Where the segment begins in its chunk.
  std::size_t offset_in_chunk(std::size_t unit) const {
    return schedule_.segment_of(unit) * segment_count_;
  }

  /// The flow of `units` units.
  SegmentFlow::Plan plan(std::size_t units, std::size_t slot_bytes, std::string_view what) const {
    SegmentFlow::Plan plan;
    plan.from = schedule_.left();
    plan.to = schedule_.right();
    plan.receives = plan.sends = units;
    plan.lead = schedule_.segments();
    plan.slot_bytes = slot_bytes;
    plan.what = what;
    return plan;
  }

 private:
  Range range_of(int chunk, std::size_t unit) const {
    return segment_of(parts_[chunk], schedule_.segment_of(unit), segment_count_);
  }

  RingSchedule schedule_;
  std::size_t size_;
  PartOffsets parts_;
  std::size_t segment_count_;
};

}  // namespace horo::collectives

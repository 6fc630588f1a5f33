#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "collectives/chunks.h"
#include "collectives/ring/segment_flow.h"

namespace horo::collectives {

/// Computes which chunks a rank sends and receives in each step of an allreduce in a ring of n
/// ranks. The buffer is cut into one chunk per rank. In each step, each rank sends one chunk to its
/// right neighbour, the next rank, and receives another chunk from its left neighbour. In the next
/// step, it sends the chunk that it has received.
///
/// Example: the chunk that each of 4 ranks sends in each step:
///
///     step     0  1  2 | 3  4  5
///     rank 0   3  2  1 | 0  3  2
///     rank 1   0  3  2 | 1  0  3
///     rank 2   1  0  3 | 2  1  0
///     rank 3   2  1  0 | 3  2  1
///
/// Steps 0 ... n-2 reduce. Chunk c starts at rank c+1 (modulo n), accumulates the values of each
/// rank, and is complete at rank c. Steps n-1 ... 2n-3 pass the complete chunks on. (Source:
/// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
/// 2009.)
///
/// Each chunk is cut into segments, so that a rank can send one segment of a chunk while it
/// receives the next segments. All chunks have the same number of segments, some of which may be
/// empty. A unit is one segment in one step. Units are numbered step by step.
class RingSchedule {
 public:
  /// `segments` is the number of segments per chunk, at least 1.
  RingSchedule(int rank, int size, std::size_t segments)
      : rank_(rank), size_(size), segments_(segments) {}

  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }
  std::size_t segments() const { return segments_; }

  std::size_t step_of(std::size_t unit) const { return unit / segments_; }
  std::size_t segment_of(std::size_t unit) const { return unit % segments_; }
  /// The chunk that this rank sends in `step`.
  int sent_chunk(std::size_t step) const;
  /// The chunk that this rank receives in `step` and sends in the next step.
  int received_chunk(std::size_t step) const { return sent_chunk(step + 1); }

  std::size_t reduce_units() const { return static_cast<std::size_t>(size_ - 1) * segments_; }
  std::size_t allreduce_units() const { return 2 * reduce_units(); }

 private:
  int rank_;
  int size_;
  std::size_t segments_;
};

/// Returns the number of elements of a segment. The largest chunk has `chunk_count` elements of
/// `element_bytes` each. A segment has at most `largest_bytes`, but at least one element. If the
/// largest chunk would have fewer than four such segments, the segments are smaller, so that more
/// of them overlap. They have at least 16 KiB unless `largest_bytes` is smaller, because for
/// smaller segments the cost per message dominates.
std::size_t segment_elements(std::size_t chunk_count, std::size_t element_bytes,
                             std::size_t largest_bytes);

/// Returns the number of segments of `segment_count` elements that cover `count` elements, at least
/// 1.
constexpr std::size_t segments_covering(std::size_t count, std::size_t segment_count) {
  return count == 0 ? 1 : (count + segment_count - 1) / segment_count;
}

/// Returns segment `index` of `chunk`, or an empty range if `chunk` has fewer segments. All
/// segments have `segment_count` elements, except the last, which may have fewer.
inline Range segment_of(Range chunk, std::size_t index, std::size_t segment_count) {
  const std::size_t begin = index * segment_count;
  if (begin >= chunk.count()) return {chunk.end, chunk.end};
  const std::size_t left = chunk.count() - begin;
  return {chunk.begin + begin, chunk.begin + begin + (left < segment_count ? left : segment_count)};
}

/// Computes which elements each unit carries, if the chunks are consecutive parts of a buffer. An
/// element may be a byte.
class RingSegments {
 public:
  /// `parts` has one part per rank: part r is chunk r. The largest part has `largest` elements.
  /// Every part is cut into segments of `segment_count` elements and has as many segments as the
  /// largest part. Segments beyond the end of a part are empty.
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
  /// Whether the unit is in step 0, in which each rank sends only its own contribution.
  bool is_first_hop(std::size_t unit) const { return schedule_.step_of(unit) == 0; }
  /// Whether the unit is in step n - 2, in which the receiver adds the last contribution.
  bool is_last_hop(std::size_t unit) const { return schedule_.step_of(unit) == size_ - 2; }
  /// The offset of the segment in its chunk, in elements.
  std::size_t offset_in_chunk(std::size_t unit) const {
    return schedule_.segment_of(unit) * segment_count_;
  }

  /// Returns the plan of a flow with `units` units in each direction. `what` names the collective
  /// in errors.
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

inline int RingSchedule::sent_chunk(std::size_t step) const {
  const auto n = static_cast<std::size_t>(size_);
  return static_cast<int>((static_cast<std::size_t>(rank_) + 2 * n - 1 - step % n) % n);
}

inline std::size_t segment_elements(std::size_t chunk_count, std::size_t element_bytes,
                                    std::size_t largest_bytes) {
  constexpr std::size_t kSegmentsWanted = 4;
  constexpr std::size_t kSmallestBytes = 16 * 1024;
  const std::size_t wanted_bytes =
      (chunk_count * element_bytes + kSegmentsWanted - 1) / kSegmentsWanted;
  const std::size_t bytes = std::min(largest_bytes, std::max(kSmallestBytes, wanted_bytes));
  // Unless largest_bytes is smaller than a cache line, the size is a multiple of a cache line. If a
  // chunk starts at a cache line, all of its segments then do too.
  const std::size_t line_elements = 64 / element_bytes;
  const std::size_t elements = bytes / element_bytes / line_elements * line_elements;
  return std::max<std::size_t>(
      elements, bytes < 64 ? std::max<std::size_t>(bytes / element_bytes, 1) : line_elements);
}

}  // namespace horo::collectives

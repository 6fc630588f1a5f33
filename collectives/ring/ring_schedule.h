#pragma once

#include <cstddef>

#include "collectives/chunks.h"

namespace horo::collectives {

/// Who sends what when in a ring: pure arithmetic. A buffer is cut into one chunk per rank; in
/// every step each rank sends one chunk to its right neighbour and receives another from its left
/// one, and what it receives in a step it sends on in the next.
///
/// Example, 4 ranks; the chunk that rank r sends in each step:
///
///     step     0  1  2 | 3  4  5
///     rank 0   3  2  1 | 0  3  2
///     rank 1   0  3  2 | 1  0  3
///     rank 2   1  0  3 | 2  1  0
///     rank 3   2  1  0 | 3  2  1
///
/// Steps 0 ... n-2 reduce: chunk c starts at rank c+1, collects the others' values on its way, and
/// is complete at rank c. Steps n-1 ... 2n-3 hand the complete chunks round. (Source: Patarasuk and
/// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.)
///
/// Each chunk is cut into the same number of segments, so that a segment is sent on while the next
/// ones of its chunk still arrive; a unit is one segment in one step, and units are numbered step
/// by step.
class RingSchedule {
 public:
  /// `segments`: per chunk, at least 1.
  RingSchedule(int rank, int size, std::size_t segments)
      : rank_(rank), size_(size), segments_(segments) {}

  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }
  std::size_t segments() const { return segments_; }

  std::size_t step_of(std::size_t unit) const { return unit / segments_; }
  std::size_t segment_of(std::size_t unit) const { return unit % segments_; }
  /// The chunk that this rank sends in `step`.
  int sent_chunk(std::size_t step) const;
  /// The chunk that this rank receives in `step`: the one it sends in the next.
  int received_chunk(std::size_t step) const { return sent_chunk(step + 1); }

  std::size_t reduce_units() const { return static_cast<std::size_t>(size_ - 1) * segments_; }
  std::size_t allreduce_units() const { return 2 * reduce_units(); }

 private:
  int rank_;
  int size_;
  std::size_t segments_;
};

/// Elements of one segment when the largest chunk has `chunk_count` elements of `element_bytes`: at
/// most `largest_bytes`, smaller where that gives the pipeline several segments, but not so small
/// that the cost per message dominates. At least 1.
std::size_t segment_elements(std::size_t chunk_count, std::size_t element_bytes,
                             std::size_t largest_bytes);

/// How many segments of `segment_count` elements cover `count`: at least 1.
constexpr std::size_t segments_covering(std::size_t count, std::size_t segment_count) {
  return count == 0 ? 1 : (count + segment_count - 1) / segment_count;
}

/// Segment `index` of `chunk`; empty if the chunk is shorter.
inline Range segment_of(Range chunk, std::size_t index, std::size_t segment_count) {
  const std::size_t begin = index * segment_count;
  if (begin >= chunk.count()) return {chunk.end, chunk.end};
  const std::size_t left = chunk.count() - begin;
  return {chunk.begin + begin, chunk.begin + begin + (left < segment_count ? left : segment_count)};
}

}  // namespace horo::collectives

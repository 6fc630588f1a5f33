#include "collectives/ring/ring_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace horo::collectives {
namespace {

// Runs the schedule on sets of contributions: contributors[rank][element] counts, for each rank,
// how often its value is in the partial result that `rank` has for this element.
class PlayedRing {
 public:
  PlayedRing(int size, std::size_t count, std::size_t segment_count)
      : size_(static_cast<std::size_t>(size)), count_(count), segment_count_(segment_count) {
    const std::size_t largest = chunk_of(count, size_, 0).count();
    const std::size_t segments = segments_covering(largest, segment_count);
    for (int r = 0; r < size; ++r) {
      schedules_.emplace_back(r, size, segments);
      std::vector<int> own(size_, 0);
      own[static_cast<std::size_t>(r)] = 1;
      held_.emplace_back(count, own);
    }
  }

  void play_step(std::size_t step) {
    const auto before = held_;
    for (std::size_t r = 0; r < size_; ++r) {
      const auto left = static_cast<std::size_t>(schedules_[r].left());
      ASSERT_EQ(schedules_[left].right(), static_cast<int>(r));
      ASSERT_EQ(schedules_[left].sent_chunk(step), schedules_[r].received_chunk(step));
      for (std::size_t s = 0; s < schedules_[r].segments(); ++s) {
        const std::size_t unit = step * schedules_[r].segments() + s;
        ASSERT_EQ(schedules_[r].step_of(unit), step);
        ASSERT_EQ(schedules_[r].segment_of(unit), s);
        const auto chunk = static_cast<std::size_t>(schedules_[r].received_chunk(step));
        const Range range = segment_of(chunk_of(count_, size_, chunk), s, segment_count_);
        for (std::size_t i = range.begin; i < range.end; ++i) take(r, i, before[left][i], unit);
      }
    }
  }

  void expect_complete() const {
    for (const auto& rank : held_)
      for (const auto& contributors : rank)
        for (const int times : contributors) ASSERT_EQ(times, 1);
  }
  // After the reduce-scatter phase, the own chunk of each rank is complete.
  void expect_own_chunks_complete() const {
    for (std::size_t r = 0; r < size_; ++r) {
      const Range own = chunk_of(count_, size_, r);
      for (std::size_t i = own.begin; i < own.end; ++i)
        for (const int times : held_[r][i]) ASSERT_EQ(times, 1);
    }
  }
  const RingSchedule& schedule() const { return schedules_[0]; }
  std::size_t reductions() const { return reductions_; }

 private:
  void take(std::size_t rank, std::size_t i, const std::vector<int>& arrived, std::size_t unit) {
    if (unit >= schedules_[rank].reduce_units()) {
      held_[rank][i] = arrived;
      return;
    }
    ++reductions_;
    for (std::size_t c = 0; c < size_; ++c) held_[rank][i][c] += arrived[c];
  }

  std::size_t size_;
  std::size_t count_;
  std::size_t segment_count_;
  std::vector<RingSchedule> schedules_;
  std::vector<std::vector<std::vector<int>>> held_;
  std::size_t reductions_ = 0;
};

TEST(RingSchedule, ReducesOnceAndDistributesToAllRanks) {
  for (int size = 1; size <= 9; ++size)
    for (std::size_t count = 0; count <= 40; ++count)
      for (const std::size_t segment : {1, 3, 64}) {
        PlayedRing ring(size, count, segment);
        const auto n = static_cast<std::size_t>(size);
        for (std::size_t step = 0; step + 1 < n; ++step) ring.play_step(step);
        ring.expect_own_chunks_complete();
        EXPECT_EQ(ring.reductions(), count * (n - 1));
        for (std::size_t step = n - 1; step < 2 * (n - 1); ++step) ring.play_step(step);
        ring.expect_complete();
        EXPECT_EQ(ring.schedule().allreduce_units(), 2 * (n - 1) * ring.schedule().segments());
        if (HasFatalFailure())
          FAIL() << size << " ranks, " << count << " elements, segments of " << segment;
      }
}

TEST(RingSchedule, MatchesDocumentedExample) {
  const int sent[4][6] = {
      {3, 2, 1, 0, 3, 2}, {0, 3, 2, 1, 0, 3}, {1, 0, 3, 2, 1, 0}, {2, 1, 0, 3, 2, 1}};
  for (int rank = 0; rank < 4; ++rank)
    for (std::size_t step = 0; step < 6; ++step)
      EXPECT_EQ(RingSchedule(rank, 4, 1).sent_chunk(step), sent[rank][step]) << rank << " " << step;
}

TEST(RingSchedule, ChunksAndSegmentsTileBuffer) {
  for (std::size_t parts = 1; parts <= 9; ++parts)
    for (std::size_t count = 0; count <= 40; ++count)
      for (std::size_t segment = 1; segment <= 7; ++segment) {
        std::size_t next = 0;
        const std::size_t segments = segments_covering(chunk_of(count, parts, 0).count(), segment);
        for (std::size_t p = 0; p < parts; ++p)
          for (std::size_t s = 0; s < segments; ++s) {
            const Range range = segment_of(chunk_of(count, parts, p), s, segment);
            if (range.count() == 0) continue;
            ASSERT_EQ(range.begin, next);
            ASSERT_LE(range.count(), segment);
            next = range.end;
          }
        ASSERT_EQ(next, count);
      }
}

TEST(SegmentElements, StaysWithinBounds) {
  for (const std::size_t width : {1, 2, 4, 8})
    for (const std::size_t largest : {std::size_t{1}, std::size_t{8}, std::size_t{100},
                                      std::size_t{4096}, std::size_t{1} << 20})
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 24}) {
        const std::size_t elements = segment_elements(count, width, largest);
        EXPECT_GE(elements, 1u);
        EXPECT_LE(elements * width, std::max(largest, width));
      }
  EXPECT_EQ(segment_elements(std::size_t{1} << 24, 4, 1 << 18), std::size_t{1} << 16);
  EXPECT_EQ(segment_elements(1 << 16, 4, 1 << 18), std::size_t{1} << 14) << "four segments";
}

}  // namespace
}  // namespace horo::collectives

#include "horo/metrics/step_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace horo::metrics {
namespace {

using ::testing::ElementsAre;

TEST(PhaseTimes, AddsUpSequentialPhases) {
  PhaseTimes times;
  std::int64_t now = 100;
  for (int step = 0; step < 3; ++step)
    for (const auto& [name, length] : {std::pair{"data", 5}, {"forward", 7}}) {
      const auto number = times.begin(name, now);
      now += length;
      times.end(number, now);
      now += 2;  // outside all phases
    }
  EXPECT_THAT(times.names(), ElementsAre("data", "forward"));
  EXPECT_EQ(times.totals(now)[0], 15);
  EXPECT_EQ(times.totals(now)[1], 21);
}

TEST(PhaseTimes, CountsInnermostAndOpenPhase) {
  PhaseTimes times;
  const auto step = times.begin("step", 10);
  const auto data = times.begin("data", 13);
  EXPECT_EQ(times.totals(20)[0], 3);
  EXPECT_EQ(times.totals(20)[1], 7);
  times.end(data, 20);
  EXPECT_EQ(times.totals(24)[0], 7);
  times.end(step, 25);
  EXPECT_EQ(times.totals(90)[0], 8);
  EXPECT_EQ(times.totals(90)[1], 7);
}

TEST(PhaseTimes, KeepsInnerPhaseOpenWhenOuterEnds) {
  PhaseTimes times;
  const auto first = times.begin("forward", 0);
  const auto second = times.begin("backward", 4);
  times.end(first, 5);
  times.end(first, 6);  // no effect the second time
  times.end(0, 6);
  times.end(second, 9);
  EXPECT_EQ(times.totals(20)[0], 4);
  EXPECT_EQ(times.totals(20)[1], 5);
}

TEST(PhaseTimes, SumsPhasesBeyondLimit) {
  PhaseTimes times;
  std::int64_t now = 0;
  for (std::size_t i = 0; i < kMostPhases + 5; ++i) {
    const auto number = times.begin("p" + std::to_string(i), now);
    now += 3;
    times.end(number, now);
  }
  ASSERT_EQ(times.names().size(), kMostPhases);
  EXPECT_EQ(times.names().back(), kOtherPhases);
  EXPECT_EQ(times.totals(now)[kMostPhases - 1], 6 * 3);
  const auto totals = times.totals(now);
  EXPECT_EQ(std::accumulate(totals.begin(), totals.end(), std::int64_t{0}), now);
}

}  // namespace
}  // namespace horo::metrics

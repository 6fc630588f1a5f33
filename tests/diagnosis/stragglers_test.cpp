#include "horo/diagnosis/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/flight_recorder/flight_logs.h"

namespace horo::observe {
namespace {

using testing::HasSubstr;
using testing::Not;

// Steps of 10 ms. `late[r]`: in each step, rank r arrives this many ms after the start.
std::vector<FlightLog> job(const std::vector<double>& late, int steps, const std::string& kind) {
  auto logs = empty_flights(static_cast<int>(late.size()));
  const double last = *std::ranges::max_element(late);
  for (std::size_t r = 0; r < late.size(); ++r)
    for (int step = 1; step <= steps; ++step) {
      const double begin = 10.0 * step;
      add_event(logs[r], "p/bucket 0", kind, begin, begin + late[r], begin + late[r],
                begin + last + 1);
      if (kind != kBucketKind)
        logs[r].finished_events.back().submitted = logs[r].finished_events.back().agreed;
    }
  return logs;
}

TEST(Stragglers, FindsLastRankAndItsCost) {
  for (const char* kind : {kBucketKind, "allreduce"}) {
    const auto report = find_stragglers(job({1, 1.5, 4, 0.5}, 50, kind));
    EXPECT_EQ(report.operations, 50u);
    EXPECT_EQ(report.ranks[0].rank, 2);
    EXPECT_EQ(report.ranks[0].host, "b");
    EXPECT_EQ(report.ranks[0].last, 50u);
    EXPECT_EQ(report.ranks[0].delayed, 50 * 5 * kMillisecond / 2);  // after rank 1
    EXPECT_EQ(report.ranks[0].waited, 0);
    for (const RankTimes& rank : report.ranks)
      EXPECT_EQ(rank.waited, 50 *
                                 (8 - std::array{2, 3, 8, 1}[static_cast<std::size_t>(rank.rank)]) *
                                 kMillisecond / 2);
    EXPECT_THAT(describe(report), HasSubstr("rank 2 (b) came last to 50"));
  }
}

TEST(Stragglers, NamesPhaseOfDelay) {
  auto logs = job({1, 4}, 10, kBucketKind);
  for (int step = 1; step <= 10; ++step) {
    add_phase(logs[1], "step", 10.0 * step, 10.0 * step + 9);
    add_phase(logs[1], step == 5 ? "log" : "data", 10.0 * step + 2, 10.0 * step + 5);
  }
  const auto report = find_stragglers(logs);
  EXPECT_EQ(report.ranks[0].phase, "data");
  EXPECT_THAT(describe(report), HasSubstr("most of it in phase 'data'"));
}

TEST(Stragglers, CountsOverlappingDelaysOnce) {
  auto logs = job({1, 4}, 10, kBucketKind);
  for (auto& log : logs)
    for (FlightEvent event : std::vector(log.finished_events)) {
      event.name = "p/bucket 1";
      log.finished_events.push_back(event);
    }
  const auto report = find_stragglers(logs);
  EXPECT_EQ(report.operations, 20u);
  EXPECT_EQ(report.ranks[0].last, 20u);
  EXPECT_EQ(report.ranks[0].delayed, 10 * 3 * kMillisecond);
  EXPECT_EQ(report.ranks[1].waited, 10 * 3 * kMillisecond);
}

TEST(TimeSpans, MergesTouchingSpans) {
  const auto merged = merge_spans({{7, 9}, {1, 3}, {3, 4}, {2, 3}, {12, 12}});
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].end, 4);
  EXPECT_EQ(length_of(merged), 3 + 2 + 0);
  EXPECT_TRUE(merge_spans({}).empty());
}

TEST(TimeSpans, CountsNestedPhaseTimeOnce) {
  auto logs = empty_flights(1);
  add_phase(logs[0], "step", 10, 20);
  add_phase(logs[0], "data", 12, 15);
  add_phase(logs[0], "step", 20, 30);
  const auto at = [](int ms) { return kStart + ms * kMillisecond; };
  const std::vector<TimeSpan> spans = {{at(5), at(14)}, {at(19), at(21)}};
  const auto times = phase_times(logs[0], spans);
  EXPECT_EQ(times.at(""), 5 * kMillisecond);
  EXPECT_EQ(times.at("step"), 4 * kMillisecond);
  EXPECT_EQ(times.at("data"), 2 * kMillisecond);
}

TEST(Stragglers, EvenRanksAreNotBlamed) {
  const auto report = find_stragglers(job({1, 1.001, 1}, 20, kBucketKind));
  EXPECT_EQ(report.operations, 20u);
  EXPECT_THAT(describe(report), HasSubstr("no rank delayed the others"));
}

TEST(Stragglers, SkipsOperationsMissingOnARank) {
  auto logs = job({1, 4}, 10, kBucketKind);
  logs[0].finished_events.erase(logs[0].finished_events.begin(),
                                logs[0].finished_events.begin() + 4);
  logs[1].finished_events.erase(logs[1].finished_events.begin() + 7);
  EXPECT_EQ(find_stragglers(logs).operations, 5u);
}

TEST(Stragglers, ShowsOwnAndWaitingTimeOfEveryRank) {
  // From the first arrival to the end: 10 s.
  auto logs = job({1000, 2500, 4000}, 1, kBucketKind);
  for (int r = 0; r < 3; ++r) {
    auto& event = logs[static_cast<std::size_t>(r)].finished_events[0];
    event.ended = kStart + 11010 * kMillisecond;
  }
  const std::string text = describe(find_stragglers(logs));
  EXPECT_THAT(text, HasSubstr("rank  host  own time         waiting          came last\n"
                              "0     a     7 s       70 %   3 s       30 %   0\n"
                              "1     a     8.5 s     85 %   1.5 s     15 %   0\n"
                              "2     b     10 s     100 %   0 s        0 %   1\n"));
  EXPECT_THAT(text, Not(HasSubstr("of 3 ranks")));
}

TEST(Stragglers, ShowsFastestMedianAndSlowestOfManyRanks) {
  for (const int ranks : {16, 17, 40}) {
    std::vector<double> late;  // a permutation: rank r arrives at 7 r mod ranks
    for (int r = 0; r < ranks; ++r) late.push_back(r * 7 % ranks * 0.1);
    const std::string text = describe(find_stragglers(job(late, 5, kBucketKind)));
    const auto rows = std::ranges::count_if(late, [&](double& of_rank) {
      return text.find(fmt::format("\n{:<4}  ", &of_rank - late.data())) != std::string::npos;
    });
    EXPECT_EQ(rows, ranks > 16 ? 6 : ranks) << text;
    if (ranks == 16) continue;
    EXPECT_THAT(text, HasSubstr(fmt::format("of {} ranks", ranks)));
    for (const int slot : {0, ranks / 2, ranks - 4, ranks - 3, ranks - 2, ranks - 1})
      for (int r = 0; r < ranks; ++r) {
        if (r * 7 % ranks == slot) {
          EXPECT_THAT(text, HasSubstr(fmt::format("\n{:<4}  ", r)));
        }
      }
  }
}

TEST(Stragglers, IgnoresWaitsForPlanThreads) {
  EXPECT_EQ(find_stragglers(job({1, 4}, 10, kWaitKind)).operations, 0u);
}

TEST(Stragglers, ReportsLackOfCommonOperations) {
  EXPECT_THAT(describe(find_stragglers(empty_flights(2))), HasSubstr("no operation"));
  EXPECT_THAT(describe(find_stragglers(empty_flights(1))), HasSubstr("no operation"));
  EXPECT_THAT(describe(find_stragglers({})), HasSubstr("no operation"));
}

TEST(Stragglers, NamesAtMostThree) {
  auto logs = empty_flights(6);
  for (int step = 1; step <= 60; ++step)
    for (int r = 0; r < 6; ++r) {
      const double begin = 10.0 * step, late = step % 6 == r ? 4 + r * 0.1 : 1;
      add_event(logs[static_cast<std::size_t>(r)], "b/bucket 0", kBucketKind, begin, begin + late,
                begin + late, begin + 6);
    }
  const std::string text = describe(find_stragglers(logs));
  for (const char* named : {"rank 5 ", "rank 4 ", "rank 3 "}) EXPECT_THAT(text, HasSubstr(named));
  EXPECT_THAT(text, Not(HasSubstr("rank 2 (")));
}

}  // namespace
}  // namespace horo::observe

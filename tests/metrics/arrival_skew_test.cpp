#include "horo/metrics/arrival_skew.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/metrics/metrics_page.h"

namespace horo::metrics {
namespace {

using ::testing::IsEmpty;
using Waits = std::vector<std::int64_t>;

observe::RankSnapshot make_report(int rank, int ranks, std::uint64_t steps, Waits waits,
                                  const std::string& plan = "g", const std::string& set = "") {
  observe::RankSnapshot snapshot;
  snapshot.rank = rank;
  snapshot.host = "h" + std::to_string(rank);
  snapshot.times.own = 1000 * (rank + 1);
  snapshot.times.blocked = 10;
  snapshot.times.plans.push_back({plan, set, ranks, steps, std::move(waits)});
  return snapshot;
}

std::int64_t total_of(const ArrivalSkew& skew, int rank) {
  for (const PlanSkew& found : skew.skews())
    if (found.rank == rank) return found.total;
  return -1;
}

TEST(ArrivalSkew, ShortestWaitArrivedLast) {
  ArrivalSkew skew;
  // In steps 5 and 6, rank 1 arrived 80 and 60 after rank 0. Rank 2 arrived between them.
  const std::vector<observe::RankSnapshot> ranks = {make_report(0, 3, 7, {100, 90}),
                                                    make_report(1, 3, 7, {20, 30}),
                                                    make_report(2, 3, 7, {50, 85})};
  skew.update(ranks);
  EXPECT_EQ(total_of(skew, 0), 0);
  EXPECT_EQ(total_of(skew, 1), 80 + 60);
  EXPECT_EQ(total_of(skew, 2), 50 + 5);
  const auto compared = skew.ranks();
  EXPECT_EQ(compared[1].last, 2u);
  EXPECT_EQ(compared[1].delayed, 30 + 55);  // after rank 2
  EXPECT_EQ(compared[0].last + compared[2].last, 0u);
  EXPECT_EQ(compared[2].own, 3000);
  EXPECT_EQ(compared[2].host, "h2");
}

TEST(ArrivalSkew, CountsStepsOnceIfAllRanksReport) {
  ArrivalSkew skew;
  skew.update(std::vector{make_report(0, 2, 3, {1, 2, 3}), make_report(1, 2, 2, {1, 1})});
  EXPECT_EQ(skew.skews()[0].steps, 2u) << "rank 1 has not completed step 2";
  EXPECT_EQ(total_of(skew, 1), 0 + 1);
  skew.update(std::vector{make_report(0, 2, 3, {1, 2, 3}), make_report(1, 2, 3, {1, 1, 1})});
  EXPECT_EQ(skew.skews()[0].steps, 3u);
  EXPECT_EQ(total_of(skew, 1), 0 + 1 + 2);
  // Both ranks have advanced so far that their reports no longer contain steps 3 to 8.
  skew.update(std::vector{make_report(0, 2, 10, {9, 9}), make_report(1, 2, 11, {4, 4})});
  EXPECT_EQ(skew.skews()[0].steps, 4u) << "both report only step 9";
  EXPECT_EQ(total_of(skew, 1), 0 + 1 + 2 + 5);
}

TEST(ArrivalSkew, WaitsForReportsOfAllRanks) {
  ArrivalSkew skew;
  skew.update(std::vector{make_report(0, 3, 2, {5, 5}), make_report(1, 3, 2, {1, 1})});
  EXPECT_THAT(skew.skews(), IsEmpty());
  EXPECT_EQ(skew.ranks().size(), 2u);
}

TEST(ArrivalSkew, ComparesMembersOfProcessSets) {
  ArrivalSkew skew;
  skew.update(std::vector{make_report(0, 2, 1, {5}, "g", "{0, 2}"),
                          make_report(1, 1, 1, {9}, "g", "{1}"),
                          make_report(2, 2, 1, {3}, "g", "{0, 2}")});
  ASSERT_EQ(skew.skews().size(), 2u);
  EXPECT_EQ(total_of(skew, 2), 2);
}

TEST(ArrivalSkew, MeanCoversLatestIntervalWithSteps) {
  ArrivalSkew skew;
  skew.update(std::vector{make_report(0, 2, 2, {10, 20}), make_report(1, 2, 2, {0, 0})});
  EXPECT_EQ(skew.skews()[1].latest_mean, 15);
  skew.begin_interval();
  EXPECT_EQ(skew.skews()[1].latest_mean, 15);
  skew.update(std::vector{make_report(0, 2, 3, {4}), make_report(1, 2, 3, {0})});
  EXPECT_EQ(skew.skews()[1].latest_mean, 4);
  EXPECT_EQ(total_of(skew, 1), 34);
}

TEST(ArrivalSkew, SkipsInvalidReports) {
  ArrivalSkew skew;
  observe::RankSnapshot silent;
  skew.update(std::vector{silent, make_report(0, 2, 1, {1, 2, 3}), make_report(1, 2, 1, {1, 2, 3}),
                          make_report(2, 0, 1, {1}), make_report(3, -5, 1, {1})});
  EXPECT_THAT(skew.skews(), IsEmpty());
}

RankComparison comparison(int rank, std::int64_t delayed,
                          std::vector<observe::MeasuredTimes::PhaseTime> phases) {
  RankComparison comparison;
  comparison.rank = rank;
  comparison.own = 1000;
  comparison.delayed = delayed;
  comparison.phases = std::move(phases);
  return comparison;
}

TEST(ArrivalSkew, NamesPhaseAboveMedian) {
  std::vector<RankComparison> ranks = {comparison(0, 0, {{"data", 5}, {"backward", 100}}),
                                       comparison(1, 0, {{"data", 60}, {"backward", 101}}),
                                       comparison(2, 0, {{"data", 6}, {"backward", 99}}),
                                       comparison(3, 0, {})};
  name_phases(ranks);
  EXPECT_EQ(ranks[1].phase, "data") << "although backward is longer";
  EXPECT_EQ(ranks[3].phase, "");
  std::vector<RankComparison> two = {comparison(0, 0, {{"data", 5}}),
                                     comparison(1, 0, {{"data", 50}})};
  name_phases(two);
  EXPECT_EQ(two[0].phase, "");
  EXPECT_EQ(two[1].phase, "data");
}

TEST(Stragglers, KeepsRelevantRanksOnly) {
  std::vector<RankComparison> ranks;
  for (int rank = 0; rank < 6; ++rank) ranks.push_back(comparison(rank, 20 * rank, {}));
  const auto found = find_stragglers(ranks);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].rank, 5);
  EXPECT_EQ(found[2].rank, 3);
  EXPECT_THAT(find_stragglers({comparison(0, 9, {}), comparison(1, 0, {})}), IsEmpty());
  EXPECT_THAT(find_stragglers({}), IsEmpty());
}

}  // namespace
}  // namespace horo::metrics

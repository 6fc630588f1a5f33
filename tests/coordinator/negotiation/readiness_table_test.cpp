#include "horo/coordinator/negotiation/readiness_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ReadinessTable::Time kStart{};

Request request(const std::string& name, Kind kind = Kind::kAllreduce) {
  return {name, kind, DataType::kFloat32, ReduceOp::kSum, 0, Shape{17, 17}};
}
Request join_request() { return {std::string(kJoinName), Kind::kJoin}; }

// The table of a leader: itself (rank 0), rank 1 of its node, and ranks 2 and 3 below another
// leader.
struct TableHarness : ReadinessTable {
  TableHarness() : ReadinessTable({{0}, {1}, {2, 3}}) {}
  void submit(std::size_t contributor, const Request& own, Time now = kStart) {
    add(contributor, contribution_of(contributor == 2 ? 2 : static_cast<int>(contributor), own),
        now);
  }
  std::vector<std::string> complete_names() {
    std::vector<std::string> names;
    for (const Contribution& contribution : take_complete()) names.push_back(contribution.name());
    return names;
  }
};

TEST(ReadinessTable, CompletesWithLastContributor) {
  TableHarness table;
  table.submit(2, request("x"));
  table.submit(0, request("y"));
  table.submit(0, request("x"));
  EXPECT_THAT(table.complete_names(), IsEmpty());
  table.submit(1, request("x"));
  EXPECT_THAT(table.complete_names(), ElementsAre("x"));
  EXPECT_THAT(table.complete_names(), IsEmpty());
  EXPECT_FALSE(table.is_empty());
}

TEST(ReadinessTable, NameIsFreeAfterCompletion) {
  TableHarness table;
  for (int step = 0; step < 3; ++step)
    for (std::size_t c = 0; c < 3; ++c) {
      table.submit(c, request("x"));
      EXPECT_EQ(table.complete_names().size(), c == 2 ? 1u : 0u);
    }
}

TEST(ReadinessTable, RejectsSecondSubmission) {
  TableHarness table;
  table.submit(1, request("x"));
  EXPECT_THROW(table.submit(1, request("x")), CommunicationError);
}

TEST(ReadinessTable, NamesMissingRanksOldestFirst) {
  TableHarness table;
  table.submit(1, request("old"));
  table.submit(1, request("new"), kStart + 5s);
  table.submit(2, request("new"), kStart + 6s);
  EXPECT_THAT(table.waiting_longer_than(10s, kStart + 9s, 8), IsEmpty());
  const auto waiting = table.waiting_longer_than(10s, kStart + 20s, 8);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0], (Waiting{"old", 20s, {0, 2, 3}}));
  EXPECT_EQ(waiting[1], (Waiting{"new", 15s, {0}}));
}

TEST(ReadinessTable, ReportNarrowsMissingRanksOfSubtree) {
  TableHarness table;
  table.submit(0, request("x"));
  table.submit(1, request("x"));
  EXPECT_THAT(table.waiting_longer_than(1s, kStart + 2s, 8)[0].missing, ElementsAre(2, 3));
  table.report(2, {"x", 1s, {3}}, kStart + 2s);
  EXPECT_THAT(table.waiting_longer_than(1s, kStart + 2s, 8)[0].missing, ElementsAre(3));
  table.submit(2, request("x"), kStart + 3s);
  EXPECT_THAT(table.complete_names(), ElementsAre("x"));
}

TEST(ReadinessTable, ReportAddsOperationOfSubtree) {
  TableHarness table;
  table.report(2, {"far", 30s, {2}}, kStart + 40s);
  const auto waiting = table.waiting_longer_than(25s, kStart + 40s, 8);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0], (Waiting{"far", 30s, {0, 1, 2}}));
}

TEST(ReadinessTable, ShutdownMakesOtherOperationsUnsatisfiable) {
  TableHarness table;
  table.submit(0, request("before"));
  table.submit(1, request("kept"));
  EXPECT_THAT(table.take_unsatisfiable(), IsEmpty());
  table.shut_down(1, {1, 610, {}});
  EXPECT_THAT(table.take_unsatisfiable(), ElementsAre(UnsatisfiableOperation{"before", 1, 610}));
  EXPECT_THAT(table.take_unsatisfiable(), IsEmpty());  // once
  table.remove("before");
  table.submit(2, request("after"));
  EXPECT_THAT(table.take_unsatisfiable(), ElementsAre(UnsatisfiableOperation{"after", 1, 610}));
  table.submit(0, request("kept"));
  table.submit(2, request("kept"));
  EXPECT_THAT(table.complete_names(), ElementsAre("kept"));
}

TEST(ReadinessTable, OpenOperationsOfShutdownRankCanComplete) {
  TableHarness table;
  table.shut_down(2, {3, 7, {"open"}});
  table.submit(0, request("open"));
  table.submit(0, request("never"));
  EXPECT_THAT(table.take_unsatisfiable(), ElementsAre(UnsatisfiableOperation{"never", 3, 7}));
  table.submit(1, request("open"));
  table.submit(2, request("open"));
  EXPECT_THAT(table.complete_names(), ElementsAre("open"));
  table.submit(0, request("open"));  // rank 3 has not submitted a second 'open'
  EXPECT_THAT(table.take_unsatisfiable(), ElementsAre(UnsatisfiableOperation{"open", 3, 7}));
}

TEST(ReadinessTable, ReturnsShutdownsWithOpenOperations) {
  TableHarness table;
  table.submit(1, request("x"));
  table.submit(0, request("y"));
  table.shut_down(1, {1, 12, {}});
  EXPECT_THAT(table.take_shutdowns(), ElementsAre(RankShutdown{1, 12, {"x"}}));
  EXPECT_THAT(table.take_shutdowns(), IsEmpty());
}

TEST(ReadinessTable, DoesNotWaitForJoinedRanks) {
  TableHarness table;
  table.submit(0, request("x"));
  table.submit(2, request("x"));
  table.submit(1, join_request());
  table.join(1, {1});
  auto complete = table.take_complete();
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_EQ(complete[0].name(), "x");
  EXPECT_THAT(complete[0].absent, ElementsAre(1));
  table.join(2, {3});  // rank 2 is still there
  table.submit(0, request("y"));
  EXPECT_THAT(table.complete_names(), IsEmpty());
  Contribution below = contribution_of(2, request("y"));
  below.absent = {3};
  table.add(2, below, kStart);
  complete = table.take_complete();
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_THAT(complete[0].absent, ElementsAre(1, 3));
}

TEST(ReadinessTable, JoinAndShutdownNeedEveryRank) {
  TableHarness table;
  for (std::size_t c : {1u, 2u}) table.submit(c, join_request());
  table.join(1, {1});
  table.join(2, {2, 3});
  EXPECT_THAT(table.complete_names(), IsEmpty());
  EXPECT_THAT(table.waiting_longer_than(0s, kStart, 8)[0].missing, ElementsAre(0));
  table.submit(0, join_request());
  table.join(0, {0});
  EXPECT_THAT(table.complete_names(), ElementsAre(std::string(kJoinName)));
  table.end_join();
  EXPECT_THAT(table.joined(), IsEmpty());
  table.submit(0, request("x"));
  EXPECT_THAT(table.complete_names(), IsEmpty());
}

TEST(ReadinessTable, ProgressOfOthersRestartsAgeOfJoin) {
  TableHarness table;
  table.submit(1, join_request());
  table.join(1, {1});
  EXPECT_EQ(table.waiting_longer_than(10s, kStart + 20s, 8).size(), 1u);
  table.refresh_join(kStart + 15s);
  EXPECT_THAT(table.waiting_longer_than(10s, kStart + 20s, 8), IsEmpty());
}

TEST(ReadinessTable, OrdersReportsByAge) {
  TableHarness table;
  table.submit(0, request("young"), kStart + 35s);
  table.report(2, {"far", 30s, {2}}, kStart + 40s);
  table.report(2, {"near", 4s, {2}}, kStart + 40s);
  const auto waiting = table.waiting_longer_than(1s, kStart + 40s, 2);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].name, "far");
  EXPECT_EQ(waiting[1].name, "young");
}

// If each of these calls examined every operation, this test would exceed its time limit.
TEST(ReadinessTable, CostIsIndependentOfPendingOperations) {
  TableHarness table;
  for (int i = 0; i < 200000; ++i) table.submit(0, request(std::to_string(i)));
  std::size_t seen = 0;
  for (int round = 0; round < 200000; ++round) {
    seen += table.waiting_longer_than(1s, kStart + 10s, 3).size();
    seen += table.under_way(1ms, kStart + 10s);
  }
  EXPECT_EQ(seen, 600000u);
}

TEST(ReadinessTable, CountsRecentContributions) {
  TableHarness table;
  table.submit(0, request("x"));
  table.submit(0, request("y"), kStart + 3ms);
  EXPECT_EQ(table.under_way(5ms, kStart + 4ms), 2u);
  EXPECT_EQ(table.under_way(2ms, kStart + 4ms), 1u);
}

}  // namespace
}  // namespace horo::coordinator

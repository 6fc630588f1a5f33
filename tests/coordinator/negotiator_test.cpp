#include "horo/coordinator/negotiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Negotiator::Time kStart{};

Request request(const std::string& name, Kind kind = Kind::kAllreduce) {
  return {name, kind, DataType::kFloat32, ReduceOp::kSum, 0, Shape{17, 17}};
}
Request join_request() { return {std::string(kJoinName), Kind::kJoin}; }

// The book of a leader: itself (rank 0), rank 1 of its node, and ranks 2 and 3 below another
// leader.
struct Book : Negotiator {
  Book() : Negotiator({{0}, {1}, {2, 3}}) {}
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

TEST(Negotiator, AnOperationIsCompleteWhenEveryContributorHasSubmittedIt) {
  Book book;
  book.submit(2, request("x"));
  book.submit(0, request("y"));
  book.submit(0, request("x"));
  EXPECT_THAT(book.complete_names(), IsEmpty());
  book.submit(1, request("x"));
  EXPECT_THAT(book.complete_names(), ElementsAre("x"));
  EXPECT_THAT(book.complete_names(), IsEmpty());
  EXPECT_FALSE(book.is_empty());
}

TEST(Negotiator, ANameMayBeUsedAgainAfterAgreement) {
  Book book;
  for (int step = 0; step < 3; ++step)
    for (std::size_t c = 0; c < 3; ++c) {
      book.submit(c, request("x"));
      EXPECT_EQ(book.complete_names().size(), c == 2 ? 1u : 0u);
    }
}

TEST(Negotiator, AContributorThatSubmitsTwiceIsAnError) {
  Book book;
  book.submit(1, request("x"));
  EXPECT_THROW(book.submit(1, request("x")), CommunicationError);
}

TEST(Negotiator, TellsWhoIsMissingOldestFirst) {
  Book book;
  book.submit(1, request("old"));
  book.submit(1, request("new"), kStart + 5s);
  book.submit(2, request("new"), kStart + 6s);
  EXPECT_THAT(book.waiting_longer_than(10s, kStart + 9s, 8), IsEmpty());
  const auto waiting = book.waiting_longer_than(10s, kStart + 20s, 8);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0], (Waiting{"old", 20s, {0, 2, 3}}));
  EXPECT_EQ(waiting[1], (Waiting{"new", 15s, {0}}));
}

TEST(Negotiator, AReportOfASubtreeReplacesTheGuessThatAllItsRanksAreMissing) {
  Book book;
  book.submit(0, request("x"));
  book.submit(1, request("x"));
  EXPECT_THAT(book.waiting_longer_than(1s, kStart + 2s, 8)[0].missing, ElementsAre(2, 3));
  book.report(2, {"x", 1s, {3}}, kStart + 2s);
  EXPECT_THAT(book.waiting_longer_than(1s, kStart + 2s, 8)[0].missing, ElementsAre(3));
  book.submit(2, request("x"), kStart + 3s);
  EXPECT_THAT(book.complete_names(), ElementsAre("x"));
}

TEST(Negotiator, AReportMakesKnownWhatOnlyASubtreeHasSubmitted) {
  Book book;
  book.report(2, {"far", 30s, {2}}, kStart + 40s);
  const auto waiting = book.waiting_longer_than(25s, kStart + 40s, 8);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0], (Waiting{"far", 30s, {0, 1, 2}}));
}

TEST(Negotiator, WhatADepartedRankNeverSubmittedIsAnOrphan) {
  Book book;
  book.submit(0, request("before"));
  book.submit(1, request("kept"));
  EXPECT_THAT(book.take_orphans(), IsEmpty());
  book.depart(1, {1, 610, {}});
  EXPECT_THAT(book.take_orphans(), ElementsAre(Orphan{"before", 1, 610}));
  EXPECT_THAT(book.take_orphans(), IsEmpty());  // once
  book.remove("before");
  book.submit(2, request("after"));
  EXPECT_THAT(book.take_orphans(), ElementsAre(Orphan{"after", 1, 610}));
  book.submit(0, request("kept"));
  book.submit(2, request("kept"));
  EXPECT_THAT(book.complete_names(), ElementsAre("kept"));
}

TEST(Negotiator, WhatADepartedRankOfASubtreeHasOpenMayStillCome) {
  Book book;
  book.depart(2, {3, 7, {"open"}});
  book.submit(0, request("open"));
  book.submit(0, request("never"));
  EXPECT_THAT(book.take_orphans(), ElementsAre(Orphan{"never", 3, 7}));
  book.submit(1, request("open"));
  book.submit(2, request("open"));
  EXPECT_THAT(book.complete_names(), ElementsAre("open"));
  book.submit(0, request("open"));  // a second time: that one it never submitted
  EXPECT_THAT(book.take_orphans(), ElementsAre(Orphan{"open", 3, 7}));
}

TEST(Negotiator, DeparturesGoUpWithWhatTheyLeaveOpenHere) {
  Book book;
  book.submit(1, request("x"));
  book.submit(0, request("y"));
  book.depart(1, {1, 12, {}});
  EXPECT_THAT(book.take_departures(), ElementsAre(Departure{1, 12, {"x"}}));
  EXPECT_THAT(book.take_departures(), IsEmpty());
}

TEST(Negotiator, JoinedRanksAreNotWaitedForAndNamedAsAbsent) {
  Book book;
  book.submit(0, request("x"));
  book.submit(2, request("x"));
  book.submit(1, join_request());
  book.join(1, {1});
  auto complete = book.take_complete();
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_EQ(complete[0].name(), "x");
  EXPECT_THAT(complete[0].absent, ElementsAre(1));
  book.join(2, {3});  // rank 2 is still there
  book.submit(0, request("y"));
  EXPECT_THAT(book.complete_names(), IsEmpty());
  Contribution below = contribution_of(2, request("y"));
  below.absent = {3};
  book.add(2, below, kStart);
  complete = book.take_complete();
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_THAT(complete[0].absent, ElementsAre(1, 3));
}

TEST(Negotiator, AJoinItselfAndAShutdownNeedEveryRank) {
  Book book;
  for (std::size_t c : {1u, 2u}) book.submit(c, join_request());
  book.join(1, {1});
  book.join(2, {2, 3});
  EXPECT_THAT(book.complete_names(), IsEmpty());
  EXPECT_THAT(book.waiting_longer_than(0s, kStart, 8)[0].missing, ElementsAre(0));
  book.submit(0, join_request());
  book.join(0, {0});
  EXPECT_THAT(book.complete_names(), ElementsAre(std::string(kJoinName)));
  book.end_join();
  EXPECT_THAT(book.joined(), IsEmpty());
  book.submit(0, request("x"));
  EXPECT_THAT(book.complete_names(), IsEmpty());
}

TEST(Negotiator, AJoinWaitsNoLongerThanSinceTheOthersLastDidSomething) {
  Book book;
  book.submit(1, join_request());
  book.join(1, {1});
  EXPECT_EQ(book.waiting_longer_than(10s, kStart + 20s, 8).size(), 1u);
  book.refresh_join(kStart + 15s);
  EXPECT_THAT(book.waiting_longer_than(10s, kStart + 20s, 8), IsEmpty());
}

TEST(Negotiator, AReportIsOrderedByItsAge) {
  Book book;
  book.submit(0, request("young"), kStart + 35s);
  book.report(2, {"far", 30s, {2}}, kStart + 40s);
  book.report(2, {"near", 4s, {2}}, kStart + 40s);
  const auto waiting = book.waiting_longer_than(1s, kStart + 40s, 2);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].name, "far");
  EXPECT_EQ(waiting[1].name, "young");
}

// With a look at every operation in each of these calls this test would not end within its limit.
TEST(Negotiator, ManyPendingOperationsDoNotSlowItDown) {
  Book book;
  for (int i = 0; i < 200000; ++i) book.submit(0, request(std::to_string(i)));
  std::size_t seen = 0;
  for (int round = 0; round < 200000; ++round) {
    seen += book.waiting_longer_than(1s, kStart + 10s, 3).size();
    seen += book.under_way(1ms, kStart + 10s);
  }
  EXPECT_EQ(seen, 600000u);
}

TEST(Negotiator, CountsWhatMovedRecently) {
  Book book;
  book.submit(0, request("x"));
  book.submit(0, request("y"), kStart + 3ms);
  EXPECT_EQ(book.under_way(5ms, kStart + 4ms), 2u);
  EXPECT_EQ(book.under_way(2ms, kStart + 4ms), 1u);
}

}  // namespace
}  // namespace horo::coordinator

#include "horo/diagnosis/missing_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diagnosis/job_snapshots.h"

namespace horo::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MissingOperations, NamesWaitingAndMissingRanksOldestFirst) {
  auto job = quiet_job(4);
  for (int r : {0, 2}) submit(job[r], "late", 5 + r);
  for (int r : {0, 1, 2, 3}) submit(job[r], "everywhere", 9);
  submit(job[3], "lone", 20);
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].operation.name, "lone");
  EXPECT_THAT(found[0].missing, ElementsAre(0, 1, 2));
  EXPECT_EQ(found[1].operation.name, "late");
  EXPECT_THAT(found[1].waiting, ElementsAre(0, 2));
  EXPECT_THAT(found[1].missing, ElementsAre(1, 3));
  EXPECT_EQ(found[1].since, kNow - 7 * kSecond);
  EXPECT_EQ(find_missing(job, kNow, std::chrono::seconds(10)).size(), 1u);
}

TEST(MissingOperations, StartedOperationIsMissingNowhere) {
  auto job = quiet_job(3);
  submit(job[0], "x", 5, "allreduce", true);
  submit(job[1], "x", 5);
  EXPECT_THAT(find_missing(job, kNow, {}), IsEmpty());
  const auto unfinished = find_unfinished(job, kNow, {});
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_THAT(unfinished[0].waiting, ElementsAre(0, 1));
  EXPECT_THAT(unfinished[0].missing, ElementsAre(2));
}

TEST(MissingOperations, ConcludesNothingFromUnlistedOperations) {
  auto job = quiet_job(3);
  submit(job[0], "x", 5);
  job[1].unlisted = 1;
  job[2].unlisted = 99744;
  EXPECT_THAT(find_missing(job, kNow, {}), IsEmpty()) << "ranks 1 and 2 may have submitted 'x'";
  EXPECT_THAT(find_unfinished(job, kNow, {}), IsEmpty()) << "or may not have";
  job[2].unlisted = 0;
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].missing, ElementsAre(2)) << "this is proven";
  const auto awaited = find_awaited(job, {1});
  ASSERT_TRUE(awaited) << "if rank 1 is dead, rank 0 waits for it in any case";
  EXPECT_THAT(awaited->missing, IsEmpty());
}

TEST(MissingOperations, SetOperationsDoNotAdvancePlanPosition) {
  auto job = quiet_job(3);
  submit(job[1], "plan/w", 5, "gradient", true);
  job[1].open.back().plan = 7;
  for (RankSnapshot& rank : job) rank.plans = {{.plan = 7, .buckets = 4}};
  for (int r : {0, 2}) job[r].finished = 103;
  EXPECT_THAT(find_missing(job, kNow, {}).at(0).missing, ElementsAre(0, 2));
  job[2].plans[0].buckets = 5;
  EXPECT_THAT(find_missing(job, kNow, {}).at(0).missing, ElementsAre(0));
  for (RankSnapshot& rank : job) rank.plans.clear();
  EXPECT_THAT(find_missing(job, kNow, {}), IsEmpty()) << "as far as is known";
}

TEST(MissingOperations, UnlistedOperationDoesNotExcuseGradient) {
  auto job = quiet_job(2);
  submit(job[0], "plan/w", 5, "gradient", true);
  job[1].unlisted = 500;
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].missing, ElementsAre(1));
}

TEST(MissingOperations, GradientIsNotMissingOnRankAhead) {
  auto job = quiet_job(3);
  submit(job[0], "plan/w", 5, "gradient", true);
  job[1].finished = 101;  // it has finished the bucket that rank 0 is exchanging
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].missing, ElementsAre(2));
}

TEST(MissingOperations, MergesOperationsOfSameRanks) {
  auto job = quiet_job(2);
  for (const char* name : {"plan/a", "plan/b", "plan/c"}) submit(job[0], name, 5, "gradient");
  submit(job[0], "metric", 5);
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].operation.name, "plan/a");
  EXPECT_EQ(found[0].others, 2u);
  EXPECT_EQ(found[1].others, 0u);
}

TEST(MissingOperations, IgnoresRanksOutsideProcessSet) {
  auto job = quiet_job(4);
  submit(job[0], "x", 5);
  submit(job[2], "y", 4);
  job[0].open[0].process_set = "evens";
  job[2].open[0].process_set = "evens";
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].missing, ElementsAre(2));
  EXPECT_THAT(found[1].missing, ElementsAre(0));
}

TEST(MissingOperations, TakesMembersFromSetName) {
  auto job = quiet_job(4);
  submit(job[0], "x", 5);
  submit(job[0], "plan/w", 4, "gradient", true);
  for (OpenOperation& open : job[0].open) open.process_set = "{0, 2}";
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].missing, ElementsAre(2)) << "though it has nothing of the set open";
  EXPECT_THAT(found[1].missing, ElementsAre(2));
  job[2].open = {job[0].open[0]};
  const auto unfinished = find_unfinished(job, kNow, {});
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_THAT(unfinished[0].waiting, ElementsAre(0, 2));
  EXPECT_THAT(unfinished[0].missing, IsEmpty()) << "the other ranks have not completed it";
}

TEST(MissingOperations, IdleMemberMissesOperationsOfSet) {
  auto job = quiet_job(4);
  const auto wait_in_set = [&](int rank, const char* name, const char* kind, bool is_started) {
    submit(job[static_cast<std::size_t>(rank)], name, 5, kind, is_started);
    job[static_cast<std::size_t>(rank)].open.back().process_set = "{0, 1, 3}";
  };
  wait_in_set(0, "loss", "allreduce", false);
  wait_in_set(0, "gradients.0/w", "gradient", true);
  submit(job[1], "epoch", 2);  // busy, but with an operation of the job
  submit(job[1], "loss", 3);   // another operation with the same name
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 3u);
  for (std::size_t i : {0u, 1u}) {
    EXPECT_THAT(found[i].waiting, ElementsAre(0));
    EXPECT_THAT(found[i].missing, ElementsAre(1, 3)) << "not rank 2, which is no member";
  }
  EXPECT_EQ(found[2].operation.process_set, "");
  EXPECT_EQ(found[2].others, 1u);
  EXPECT_THAT(found[2].missing, ElementsAre(0, 2, 3));
}

TEST(MissingOperations, SeparatesPlansOfSameNameInTwoSets) {
  auto job = quiet_job(4);
  for (int r : {0, 1}) {
    submit(job[static_cast<std::size_t>(r)], "gradients.0/w", 5, "gradient", true);
    job[static_cast<std::size_t>(r)].open.back().process_set = r == 0 ? "{0, 2}" : "{1, 3}";
  }
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].missing, ElementsAre(2));
  EXPECT_THAT(found[1].missing, ElementsAre(3));
}

TEST(MissingOperations, JoinedRankMissesOnlyJoinsAndShutdowns) {
  auto job = quiet_job(3);
  submit(job[0], "horo.join", 9, "join");
  submit(job[1], "x", 5);
  submit(job[2], "horo.shutdown", 3, "shutdown");
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_THAT(found[0].missing, ElementsAre(2)) << "of 'x'";
  EXPECT_THAT(found[1].missing, ElementsAre(0, 1)) << "of the shutdown";
  EXPECT_THAT(found[2].missing, ElementsAre(1, 2)) << "of the join, though it is the oldest";
}

TEST(MissingOperations, TreatsUnnamedBucketAsGradient) {
  auto job = quiet_job(3);
  submit(job[0], "plan/bucket 3", 5, "bucket", true);
  job[1].finished = 101;
  const auto found = find_missing(job, kNow, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].missing, ElementsAre(2));
}

TEST(MissingOperations, FormatsRanks) {
  EXPECT_EQ(format_ranks({3}), "rank 3");
  EXPECT_EQ(format_ranks({2, 0, 1, 5}), "ranks 0-2 and 5");
  EXPECT_EQ(format_ranks({0, 1}), "ranks 0-1");
  EXPECT_EQ(format_ranks({0, 2, 4}), "ranks 0, 2 and 4");
}

TEST(RankNames, ParsesBeginningOfText) {
  for (const std::vector<int>& ranks :
       {std::vector<int>{3}, {0, 1, 2, 5}, {0, 2, 4}, {0, 1}, {1, 3, 4, 5, 9}})
    EXPECT_EQ(ranks_named_first(format_ranks(ranks) + " (host b) and 7 more"), ranks);
  for (const char* text : {"", "rank", "rank x", "no rank 3", "ranks -1"})
    EXPECT_TRUE(ranks_named_first(text).empty()) << text;
}

}  // namespace
}  // namespace horo::observe

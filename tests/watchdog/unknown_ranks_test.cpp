#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/watchdog/stall_policy.h"
#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RankSnapshot make_unknown(int rank) {
  RankSnapshot unknown = make_rank(rank);
  unknown.liveness = Liveness::kSilent;
  unknown.last_sign_of_life = 90 * kSecond;
  return unknown;
}

TEST(StallPolicy, BlamesUnknownRankOnceSilent) {
  StallPolicy policy(3s, 30s);
  RankSnapshot unknown;
  unknown.rank = 1;
  unknown.host = "far";
  unknown.last_sign_of_life = 100 * kSecond;
  const auto evaluate = [&](WallTime now) {
    return policy.evaluate({make_rank(0, "x", 100 * kSecond)}, now, std::span(&unknown, 1));
  };
  EXPECT_FALSE(evaluate(104 * kSecond).warning);  // not "every rank has submitted it"
  unknown.liveness = Liveness::kSilent;
  const auto decision = evaluate(105 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning,
              AllOf(HasSubstr("rank 1 (host far) has sent no heartbeat"), HasSubstr("'x'")));
  EXPECT_FALSE(evaluate(129 * kSecond).abort_reason);
  const auto last = evaluate(131 * kSecond);
  ASSERT_TRUE(last.abort_reason);
  EXPECT_THAT(*last.abort_reason, HasSubstr("rank 1 (host far) has sent no heartbeat"));
}

TEST(StallPolicy, UnknownRankDoesNotAbortRunningJob) {
  StallPolicy policy(3s, 30s);
  const RankSnapshot unknown = make_unknown(1);
  for (WallTime now = 104 * kSecond; now < 300 * kSecond; now += 5 * kSecond)
    EXPECT_FALSE(
        policy.evaluate({make_rank(0, "x", now - 4 * kSecond)}, now, std::span(&unknown, 1))
            .abort_reason);
  RankSnapshot sending = make_rank(0, "x", 300 * kSecond);
  sending.open[0].started = 300 * kSecond;
  sending.open[0].bytes = std::int64_t{1} << 30;  // a slow link may need 107 s for it
  EXPECT_FALSE(policy.evaluate({sending}, 340 * kSecond, std::span(&unknown, 1)).abort_reason);
  EXPECT_TRUE(policy.evaluate({sending}, 600 * kSecond, std::span(&unknown, 1)).abort_reason);
  StallPolicy strict(3s, 30s);
  sending.has_overdue_wait = true;
  EXPECT_TRUE(strict.evaluate({sending}, 340 * kSecond, std::span(&unknown, 1)).abort_reason);
}

TEST(StallPolicy, KnownCauseAbortsDespiteUnknownRanks) {
  const RankSnapshot unknown = make_unknown(5);
  for (const auto& [liveness, text] :
       {std::pair(Liveness::kDead, "dead"), {Liveness::kStopped, "stopped"}}) {
    StallPolicy policy(3s, 30s);
    std::vector<RankSnapshot> ranks = {make_rank(0, "x", 100 * kSecond),
                                       make_rank(1, "x", 100 * kSecond)};
    ranks[1].liveness = liveness;
    StallPolicy::Decision decision = policy.evaluate(ranks, 104 * kSecond, std::span(&unknown, 1));
    ASSERT_TRUE(decision.warning) << text;
    EXPECT_THAT(*decision.warning, AllOf(HasSubstr("rank 1"), HasSubstr(text)));
    if (!decision.abort_reason)
      decision = policy.evaluate(ranks, 134 * kSecond, std::span(&unknown, 1));
    ASSERT_TRUE(decision.abort_reason) << text;
    EXPECT_THAT(*decision.abort_reason, AllOf(HasSubstr("rank 1"), HasSubstr(text)));
  }
}

TEST(StallPolicy, UnknownRankBlocksOnlyItsProcessSets) {
  const std::vector<RankSnapshot> unknown = {make_unknown(4), make_unknown(5)};
  const auto in_set = [](const std::string& set) {
    std::vector<RankSnapshot> ranks = {make_rank(0, "x", 100 * kSecond),
                                       make_rank(1, "x", 100 * kSecond)};
    for (RankSnapshot& rank : ranks) rank.open[0].process_set = set;
    return ranks;
  };
  StallPolicy policy(3s, 30s);
  const auto own = policy.evaluate(in_set("{0, 1}"), 104 * kSecond, unknown);
  ASSERT_TRUE(own.warning);
  EXPECT_THAT(*own.warning, AllOf(HasSubstr("'x'"), Not(HasSubstr("no heartbeat"))));
  EXPECT_TRUE(policy.evaluate(in_set("{0, 1}"), 140 * kSecond, unknown).abort_reason);
  StallPolicy wider(3s, 30s);
  const auto shared = wider.evaluate(in_set("{0, 1, 5}"), 104 * kSecond, unknown);
  ASSERT_TRUE(shared.warning);
  EXPECT_THAT(*shared.warning, AllOf(HasSubstr("rank 5 (host h2"), HasSubstr("no heartbeat"),
                                     Not(HasSubstr("rank 4"))));
  EXPECT_TRUE(wider.evaluate(in_set("{0, 1, 5}"), 140 * kSecond, unknown).abort_reason);
}

// Rank 1 waits for rank 0, which waits for the unknown rank in a process set.
TEST(StallPolicy, BlamesUnknownRankForWhichMissingRankWaits) {
  const RankSnapshot unknown = make_unknown(2);
  const auto jobs = [](const std::string& set) {
    std::vector<RankSnapshot> ranks = {make_rank(0, "y", 101 * kSecond),
                                       make_rank(1, "x", 100 * kSecond)};
    ranks[0].open[0].process_set = set;
    return ranks;
  };
  StallPolicy policy(3s, 30s);
  const auto decision = policy.evaluate(jobs("{0, 2}"), 105 * kSecond, std::span(&unknown, 1));
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning, HasSubstr("rank 2 (host h1, pid 1002) has sent no heartbeat"));
  const auto last = policy.evaluate(jobs("{0, 2}"), 140 * kSecond, std::span(&unknown, 1));
  ASSERT_TRUE(last.abort_reason);
  EXPECT_THAT(*last.abort_reason, HasSubstr("rank 2 (host h1, pid 1002) has sent no heartbeat"));
  // Ranks 0 and 1 wait for each other.
  StallPolicy mismatch(3s, 30s);
  const auto different = mismatch.evaluate(jobs(""), 105 * kSecond, std::span(&unknown, 1));
  ASSERT_TRUE(different.warning);
  EXPECT_THAT(*different.warning, HasSubstr("a subset of ranks is in one collective"));
  // The same if each waits in several operations, which are reported as one.
  std::vector<RankSnapshot> several = jobs("");
  for (RankSnapshot& rank : several) {
    rank.open.push_back(rank.open[0]);
    rank.open.back().name += ".2";
  }
  StallPolicy merged(3s, 30s);
  const auto same = merged.evaluate(several, 105 * kSecond, std::span(&unknown, 1));
  ASSERT_TRUE(same.warning);
  EXPECT_THAT(*same.warning, HasSubstr("a subset of ranks is in one collective"));
}

TEST(StallPolicy, PrefersKnownBlockerOverUnknownRank) {
  StallPolicy policy(3s, 30s);
  RankSnapshot unknown;
  unknown.rank = 2;
  unknown.liveness = Liveness::kSilent;
  EXPECT_FALSE(
      policy.evaluate({make_rank(0), make_rank(1)}, 104 * kSecond, std::span(&unknown, 1)).warning);
  const auto late = [&](WallTime now) {
    RankSnapshot waiting = make_rank(0, "x", 100 * kSecond);
    waiting.taken = now;
    return policy.evaluate({waiting, make_rank(1)}, now, std::span(&unknown, 1));
  };
  late(105 * kSecond);
  const auto decision = late(106 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning, AllOf(HasSubstr("rank 1"), Not(HasSubstr("rank 2"))));
}

}  // namespace
}  // namespace horo::observe

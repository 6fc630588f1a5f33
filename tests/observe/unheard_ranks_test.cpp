#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/observe/stall_judge.h"
#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RankSnapshot make_unheard(int rank) {
  RankSnapshot unheard = make_rank(rank);
  unheard.liveness = Liveness::kSilent;
  unheard.last_sign_of_life = 90 * kSecond;
  return unheard;
}

TEST(StallJudge, ARankThatWasNeverHeardOfIsNamedOnceItIsSilent) {
  StallJudge judge(3s, 30s);
  RankSnapshot unheard;
  unheard.rank = 1;
  unheard.host = "far";
  unheard.last_sign_of_life = 100 * kSecond;
  const auto look = [&](WallTime now) {
    return judge.look({make_rank(0, "x", 100 * kSecond)}, now, std::span(&unheard, 1));
  };
  EXPECT_FALSE(look(104 * kSecond).say);  // not "every rank has submitted it"
  unheard.liveness = Liveness::kSilent;
  const auto decision = look(105 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say,
              AllOf(HasSubstr("rank 1 (host far) has given no sign of life"), HasSubstr("'x'")));
  EXPECT_FALSE(look(129 * kSecond).end);
  const auto last = look(131 * kSecond);
  ASSERT_TRUE(last.end);
  EXPECT_THAT(*last.end, HasSubstr("rank 1 (host far) has given no sign of life"));
}

TEST(StallJudge, ARankThatWasNeverHeardOfEndsNoJobThatGoesOn) {
  StallJudge judge(3s, 30s);
  const RankSnapshot unheard = make_unheard(1);
  for (WallTime now = 104 * kSecond; now < 300 * kSecond; now += 5 * kSecond)
    EXPECT_FALSE(
        judge.look({make_rank(0, "x", now - 4 * kSecond)}, now, std::span(&unheard, 1)).end);
  RankSnapshot sending = make_rank(0, "x", 300 * kSecond);
  sending.open[0].started = 300 * kSecond;
  sending.open[0].bytes = std::int64_t{1} << 30;  // which a slow link may take 107 s for
  EXPECT_FALSE(judge.look({sending}, 340 * kSecond, std::span(&unheard, 1)).end);
  EXPECT_TRUE(judge.look({sending}, 600 * kSecond, std::span(&unheard, 1)).end);
}

TEST(StallJudge, WhatIsWrongWithARankThatIsHeardEndsTheJobWhoeverIsOutOfReach) {
  const RankSnapshot unheard = make_unheard(5);
  for (const auto& [liveness, word] :
       {std::pair(Liveness::kDead, "dead"), {Liveness::kStopped, "stopped"}}) {
    StallJudge judge(3s, 30s);
    std::vector<RankSnapshot> ranks = {make_rank(0, "x", 100 * kSecond),
                                       make_rank(1, "x", 100 * kSecond)};
    ranks[1].liveness = liveness;
    StallJudge::Decision decision = judge.look(ranks, 104 * kSecond, std::span(&unheard, 1));
    ASSERT_TRUE(decision.say) << word;
    EXPECT_THAT(*decision.say, AllOf(HasSubstr("rank 1"), HasSubstr(word)));
    if (!decision.end) decision = judge.look(ranks, 134 * kSecond, std::span(&unheard, 1));
    ASSERT_TRUE(decision.end) << word;
    EXPECT_THAT(*decision.end, AllOf(HasSubstr("rank 1"), HasSubstr(word)));
  }
}

TEST(StallJudge, ARankThatWasNeverHeardOfKeepsOnlyTheProcessSetsThatItIsIn) {
  const std::vector<RankSnapshot> unheard = {make_unheard(4), make_unheard(5)};
  const auto in_set = [](const std::string& set) {
    std::vector<RankSnapshot> ranks = {make_rank(0, "x", 100 * kSecond),
                                       make_rank(1, "x", 100 * kSecond)};
    for (RankSnapshot& rank : ranks) rank.open[0].process_set = set;
    return ranks;
  };
  StallJudge judge(3s, 30s);
  const auto own = judge.look(in_set("{0, 1}"), 104 * kSecond, unheard);
  ASSERT_TRUE(own.say);
  EXPECT_THAT(*own.say, AllOf(HasSubstr("'x'"), Not(HasSubstr("no sign of life"))));
  EXPECT_TRUE(judge.look(in_set("{0, 1}"), 140 * kSecond, unheard).end);
  StallJudge wider(3s, 30s);
  const auto shared = wider.look(in_set("{0, 1, 5}"), 104 * kSecond, unheard);
  ASSERT_TRUE(shared.say);
  EXPECT_THAT(*shared.say, AllOf(HasSubstr("rank 5 (host h2"), HasSubstr("no sign of life"),
                                 Not(HasSubstr("rank 4"))));
  EXPECT_TRUE(wider.look(in_set("{0, 1, 5}"), 140 * kSecond, unheard).end);
}

TEST(StallJudge, ARankThatWasNeverHeardOfIsNotNamedIfAnotherKeepsTheRestOrNobodyWaits) {
  StallJudge judge(3s, 30s);
  RankSnapshot unheard;
  unheard.rank = 2;
  unheard.liveness = Liveness::kSilent;
  EXPECT_FALSE(judge.look({make_rank(0), make_rank(1)}, 104 * kSecond, std::span(&unheard, 1)).say);
  const auto late = [&](WallTime now) {
    RankSnapshot waiting = make_rank(0, "x", 100 * kSecond);
    waiting.taken = now;
    return judge.look({waiting, make_rank(1)}, now, std::span(&unheard, 1));
  };
  late(105 * kSecond);
  const auto decision = late(106 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say, AllOf(HasSubstr("rank 1"), Not(HasSubstr("rank 2"))));
}

}  // namespace
}  // namespace horo::observe

#include "horo/observe/stall_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 0 waits in 'x' since second 100, rank 1 computes.
std::vector<RankSnapshot> waiting() { return {make_rank(0, "x", 100 * kSecond), make_rank(1)}; }

std::vector<RankSnapshot> with(Liveness liveness) {
  std::vector<RankSnapshot> ranks = waiting();
  ranks[1].liveness = liveness;
  return ranks;
}

// Ranks 0 and 1 exchange a gradient since second 100, rank 2 computes.
std::vector<RankSnapshot> exchanging() {
  std::vector<RankSnapshot> ranks = {make_rank(0, "g/w", 100 * kSecond),
                                     make_rank(1, "g/w", 100 * kSecond), make_rank(2)};
  for (RankSnapshot& rank : ranks)
    for (OpenOperation& operation : rank.open) {
      operation.kind = "gradient";
      operation.started = operation.submitted;
      operation.bytes = 1'000'000'000;
    }
  return ranks;
}

StallJudge make_judge() { return StallJudge(3s, 20s); }

TEST(StallJudge, NobodyWaitsSoNothingIsSaid) {
  StallJudge judge = make_judge();
  for (int second = 100; second < 1000; second += 10) {
    const auto decision = judge.look({make_rank(0), make_rank(1)}, second * kSecond);
    EXPECT_FALSE(decision.say);
    EXPECT_FALSE(decision.end);
  }
}

TEST(StallJudge, ALateRankIsToldOnceAgainLaterAndWhenItHasCome) {
  StallJudge judge = make_judge();
  EXPECT_FALSE(judge.look(waiting(), 102 * kSecond).say);
  const auto first = judge.look(waiting(), 104 * kSecond);
  ASSERT_TRUE(first.say);
  EXPECT_THAT(*first.say, AllOf(HasSubstr("'x'"), HasSubstr("rank 1 (host h0")));
  EXPECT_FALSE(first.end);
  for (int second = 105; second < 116; ++second)
    EXPECT_FALSE(judge.look(waiting(), second * kSecond).say) << second;
  EXPECT_TRUE(judge.look(waiting(), 116 * kSecond).say);
  const auto over = judge.look({make_rank(0), make_rank(1)}, 117 * kSecond);
  ASSERT_TRUE(over.say);
  EXPECT_THAT(*over.say,
              AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("no longer"), HasSubstr("13s")));
  EXPECT_FALSE(judge.look({make_rank(0), make_rank(1)}, 118 * kSecond).say);
}

TEST(StallJudge, AStallIsToldWhenNewerPicturesOfThoseThatWaitConfirmIt) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = waiting();
  ranks[0].taken = 103 * kSecond;
  ranks[1].taken = 1 * kSecond;
  for (int second : {104, 105}) {
    EXPECT_FALSE(judge.look(ranks, second * kSecond).say) << "rank 0 may be through by now";
  }
  ranks[0].taken = 104 * kSecond + 1;
  EXPECT_TRUE(judge.look(ranks, 105 * kSecond).say);
  // The others are through with 'x', and rank 2 was seen in it before.
  ranks = {make_rank(0), make_rank(1), make_rank(2, "x", 100 * kSecond)};
  ranks[2].taken = 105 * kSecond;
  EXPECT_FALSE(judge.look(ranks, 106 * kSecond).say);
  ranks[2].open.clear();
  const auto over = judge.look(ranks, 107 * kSecond);
  ASSERT_TRUE(over.say);
  EXPECT_THAT(*over.say, HasSubstr("rank 1 (host h0, pid 1001) no longer"));
}

TEST(StallJudge, ALongQueueThatMovesIsNoStall) {
  StallJudge judge = make_judge();
  for (int second = 104; second < 200; ++second) {
    // Each operation waits for 10 s; rank 1 is seen when it is through with what rank 0 is in.
    std::vector<RankSnapshot> ranks = {
        make_rank(0, "operation " + std::to_string(second), (second - 10) * kSecond), make_rank(1)};
    for (RankSnapshot& rank : ranks) rank.taken = second * kSecond;
    EXPECT_FALSE(judge.look(ranks, second * kSecond + 1).say) << second;
  }
}

TEST(StallJudge, AStallEndsTheJobAfterTheTimeout) {
  StallJudge judge = make_judge();
  EXPECT_FALSE(judge.look(waiting(), 119 * kSecond).end);
  const auto decision = judge.look(waiting(), 121 * kSecond);
  ASSERT_TRUE(decision.end);
  EXPECT_THAT(*decision.end, AllOf(HasSubstr("'x'"), HasSubstr("rank 1 (host h0"),
                                   HasSubstr("(HORO_TIMEOUT is 20s)")));
  const auto later = judge.look(waiting(), 150 * kSecond);
  EXPECT_FALSE(later.say || later.end) << "it has been said";
}

TEST(StallJudge, ADeadRankEndsTheJobAtOnce) {
  StallJudge judge = make_judge();
  const auto decision = judge.look(with(Liveness::kDead), 100 * kSecond);
  ASSERT_TRUE(decision.say && decision.end);
  EXPECT_THAT(*decision.say, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("1001")));
  EXPECT_EQ(*decision.end, *decision.say);
}

TEST(StallJudge, ARankThatHasLeftInGoodOrderEndsTheJobWhenItIsTold) {
  StallJudge judge = make_judge();
  for (const int second : {100, 101, 102}) {
    const auto decision = judge.look(with(Liveness::kEnded), second * kSecond);
    EXPECT_FALSE(decision.say || decision.end) << second;
  }
  const auto decision = judge.look(with(Liveness::kEnded), 104 * kSecond);
  ASSERT_TRUE(decision.end);
  EXPECT_THAT(*decision.end, AllOf(HasSubstr("rank 1 (host"), HasSubstr("has ended early")));
  EXPECT_EQ(decision.say.has_value(), true);
}

TEST(StallJudge, AStoppedRankIsToldAtOnceAndEndsTheJobAfterTheTimeout) {
  StallJudge judge = make_judge();
  const auto decision = judge.look(with(Liveness::kStopped), 100 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("stopped")));
  EXPECT_FALSE(judge.look(with(Liveness::kStopped), 119 * kSecond).end);
  EXPECT_TRUE(judge.look(with(Liveness::kStopped), 120 * kSecond).end);
}

TEST(StallJudge, ARankThatWasResumedIsToldOnce) {
  StallJudge judge = make_judge();
  EXPECT_TRUE(judge.look(with(Liveness::kStopped), 101 * kSecond).say);
  const auto resumed = judge.look({make_rank(0), make_rank(1)}, 106 * kSecond);
  ASSERT_TRUE(resumed.say);
  EXPECT_THAT(*resumed.say, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("5s")));
  EXPECT_FALSE(judge.look({make_rank(0), make_rank(1)}, 107 * kSecond).say);
}

TEST(StallJudge, WhatAStoppedRankKeepsIsToldOnceWhenOthersHaveWaitedForIt) {
  StallJudge judge = make_judge();
  const auto look = [&](const std::vector<RankSnapshot>& ranks, double second) {
    return judge.look(ranks, static_cast<WallTime>(second * kSecond)).say.value_or("");
  };
  std::vector<RankSnapshot> ranks = {make_rank(0), make_rank(1)};
  ranks[1].liveness = Liveness::kStopped;
  EXPECT_THAT(look(ranks, 100), AllOf(HasSubstr("is stopped"), Not(HasSubstr("waited"))));
  ranks = with(Liveness::kStopped);
  ranks[0].open[0].submitted = 101 * kSecond;
  EXPECT_EQ(look(ranks, 101.5), "") << "it may go on without rank 1";
  EXPECT_THAT(look(ranks, 102.5), HasSubstr("rank 0 has waited 1.5 s for 'x'"));
  for (int second = 103; second < 114; ++second) EXPECT_EQ(look(ranks, second), "") << second;
  EXPECT_THAT(look(ranks, 115), HasSubstr("'x'")) << "as often as any stall";
}

TEST(StallJudge, WhatWasAwaitedWhenARankWasStoppedIsNotToldAgain) {
  for (const char* later : {"x", "y"}) {
    StallJudge judge = make_judge();
    EXPECT_TRUE(judge.look(with(Liveness::kStopped), 100 * kSecond).say);
    std::vector<RankSnapshot> ranks = {make_rank(0, later, 100 * kSecond), make_rank(1)};
    ranks[1].liveness = Liveness::kStopped;
    EXPECT_EQ(judge.look(ranks, 102 * kSecond).say.has_value(), later[0] == 'y');
    EXPECT_FALSE(judge.look(ranks, 103 * kSecond).say);
  }
}

TEST(StallJudge, WhatAStoppedRankKeepsIsToldHoweverSlowTheLink) {
  StallJudge judge = make_judge();
  auto ranks = exchanging();
  ranks[2].open = ranks[0].open;
  ranks[2].liveness = Liveness::kStopped;
  const auto decision = judge.look(ranks, 102 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say, HasSubstr("ranks 0-1 have waited 2.0 s for it in 'g/w'"));
}

TEST(StallJudge, SeveralRanksThatHaveComeAreToldTogether) {
  StallJudge judge = make_judge();
  const std::vector<RankSnapshot> late = {make_rank(0, "x", 100 * kSecond), make_rank(1),
                                          make_rank(2)};
  EXPECT_TRUE(judge.look(late, 104 * kSecond).say);
  const auto over = judge.look({make_rank(0), make_rank(1), make_rank(2)}, 105 * kSecond);
  EXPECT_THAT(over.say.value_or(""), HasSubstr("ranks 1-2 (host h0, pid 1001; host h1, pid 1002) "
                                               "no longer keep the others"));
}

TEST(StallJudge, WhoGivesTheJudgementAwaySaysThatWhatHeToldIsOver) {
  StallJudge judge = make_judge();
  EXPECT_FALSE(judge.resign(100 * kSecond));
  EXPECT_TRUE(judge.look(with(Liveness::kStopped), 101 * kSecond).say);
  const auto over = judge.resign(108 * kSecond);
  ASSERT_TRUE(over);
  EXPECT_THAT(*over, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("7s")));
  EXPECT_FALSE(judge.resign(109 * kSecond));
}

TEST(StallJudge, APauseIsNoStallAndTimeCountsFromItsEnd) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> paused = waiting();
  paused[1].pause = "checkpoint";
  paused[1].pause_since = 100 * kSecond;
  for (int second = 100; second < 200; second += 5) {
    const auto decision = judge.look(paused, second * kSecond);
    EXPECT_FALSE(decision.say || decision.end) << second;
    EXPECT_EQ(decision.note.has_value(), second >= 120 && second % 20 == 0) << second;
  }
  EXPECT_FALSE(judge.look(waiting(), 197 * kSecond).say);
  EXPECT_TRUE(judge.look(waiting(), 199 * kSecond).say);
  EXPECT_FALSE(judge.look(waiting(), 214 * kSecond).end);
  EXPECT_TRUE(judge.look(waiting(), 216 * kSecond).end);
}

TEST(StallJudge, APauseThatLastsIsNotedWithWhoPausesSinceWhenAndWhoWaits) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> paused = {make_rank(0), make_rank(1), make_rank(2)};
  for (int rank : {1, 2}) {
    paused[rank].pause = "checkpoint";
    paused[rank].pause_since = (90 + rank) * kSecond;
  }
  const auto first = judge.look(paused, 112 * kSecond);
  ASSERT_TRUE(first.note);
  EXPECT_THAT(*first.note,
              HasSubstr("ranks 1-2 (host h0, pid 1001; host h1, pid 1002) have been in "
                        "pause 'checkpoint' for 21 s; nobody waits for them"));
  EXPECT_FALSE(judge.look(paused, 131 * kSecond).note);
  paused[0] = make_rank(0, "loss", 120 * kSecond);
  const auto second = judge.look(paused, 132 * kSecond);
  ASSERT_TRUE(second.note);
  EXPECT_THAT(*second.note, HasSubstr("for 41 s; rank 0 has waited 12 s for 'loss'"));
  EXPECT_FALSE(second.say || second.end);
  // Another pause counts from its own beginning, and time in which nobody ran does not.
  for (int rank : {1, 2}) paused[rank].pause_since = 133 * kSecond;
  EXPECT_FALSE(judge.look(paused, 150 * kSecond).note);
  EXPECT_TRUE(judge.look(paused, 153 * kSecond).note);
  judge.start_anew(5000 * kSecond);
  EXPECT_FALSE(judge.look(paused, 5019 * kSecond).note);
  EXPECT_TRUE(judge.look(paused, 5020 * kSecond).note);
}

TEST(StallJudge, NotesACallbackThatLastsOnceForEachTimeout) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = {make_rank(0), make_rank(1)};
  ranks[1].callback = "loss";
  ranks[1].callback_since = 100 * kSecond;
  EXPECT_FALSE(judge.look(ranks, 102 * kSecond).note);
  const auto first = judge.look(ranks, 106 * kSecond);
  ASSERT_TRUE(first.note);
  EXPECT_THAT(*first.note,
              HasSubstr("rank 1 (host h0, pid 1001) has been in the completion callback "
                        "of 'loss' for 6.0 s: its other operations wait"));
  EXPECT_FALSE(first.say || first.end);
  EXPECT_FALSE(judge.look(ranks, 120 * kSecond).note);
  EXPECT_TRUE(judge.look(ranks, 126 * kSecond).note);
}

TEST(StallJudge, ARankThatDiesInItsPauseIsToldAllTheSame) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = with(Liveness::kDead);
  ranks[1].pause = "checkpoint";
  EXPECT_TRUE(judge.look(ranks, 101 * kSecond).end);
}

TEST(StallJudge, WhatHappenedWhileTheWatchdogSleptDoesNotCount) {
  StallJudge judge = make_judge();
  judge.start_anew(5000 * kSecond);
  EXPECT_FALSE(judge.look(waiting(), 5002 * kSecond).say);
  EXPECT_TRUE(judge.look(waiting(), 5004 * kSecond).say);
  EXPECT_FALSE(judge.look(waiting(), 5019 * kSecond).end);
  EXPECT_TRUE(judge.look(waiting(), 5021 * kSecond).end);
}

TEST(StallJudge, AnotherRankIsAnotherVerdict) {
  StallJudge judge = make_judge();
  EXPECT_TRUE(judge.look(waiting(), 104 * kSecond).say);
  const auto decision = judge.look({make_rank(0), make_rank(1, "y", 100 * kSecond)}, 105 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say, HasSubstr("'y'"));
}

TEST(StallJudge, ALargeExchangeOverASlowLinkIsNoStall) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = {make_rank(0, "x", 100 * kSecond),
                                     make_rank(1, "x", 100 * kSecond)};
  for (RankSnapshot& rank : ranks) {
    rank.open[0].bytes = 1'000'000'000;
    rank.open[0].started = 100 * kSecond;
  }
  for (int second = 100; second < 200; ++second) {
    const auto decision = judge.look(ranks, second * kSecond);
    EXPECT_FALSE(decision.say || decision.end) << second;
  }
}

TEST(StallJudge, AnExchangeOfGradientsIsLargeOnlyForThoseThatAreInIt) {
  StallJudge judge = make_judge();
  const auto decision = judge.look(exchanging(), 104 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say, HasSubstr("rank 2 (host h1, pid 1002) never marked 'g/w'"));
  StallJudge patient = make_judge();
  auto all = exchanging();
  all[2].open = all[0].open;
  for (int second = 104; second < 200; ++second)
    EXPECT_FALSE(patient.look(all, second * kSecond).say) << second;
  EXPECT_TRUE(patient.look(all, 204 * kSecond).say);
}

TEST(StallJudge, AGradientThatIsMarkedIsNotWaitedWith) {
  StallJudge judge = make_judge();
  for (int second = 100; second < 1000; second += 10) {
    std::vector<RankSnapshot> ranks = {make_rank(0, "g/w", second * kSecond), make_rank(1)};
    ranks[0].open[0].kind = "gradient";
    EXPECT_FALSE(judge.look(ranks, second * kSecond).say) << second;
  }
}

TEST(StallJudge, WhoHasJoinedWaitsAsLongAsTheOthersGetOn) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = {make_rank(0, "horo.join", 100 * kSecond), make_rank(1)};
  ranks[0].open[0].kind = "join";
  for (int second = 100; second < 300; ++second) {
    ranks[1].last_finished_at = (second - second % 2) * kSecond;
    const auto decision = judge.look(ranks, second * kSecond);
    EXPECT_FALSE(decision.say || decision.end) << second;
  }
  EXPECT_TRUE(judge.look(ranks, 302 * kSecond).say);
  EXPECT_TRUE(judge.look(ranks, 319 * kSecond).end);
}

TEST(StallJudge, WhoHasJoinedIsNotBlamedForTheOthersOperations) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = {make_rank(0, "horo.join", 100 * kSecond),
                                     make_rank(1, "x", 101 * kSecond), make_rank(2)};
  ranks[0].open[0].kind = "join";
  ranks[1].last_finished_at = 101 * kSecond;
  const auto decision = judge.look(ranks, 105 * kSecond);
  ASSERT_TRUE(decision.say);
  EXPECT_THAT(*decision.say,
              ::testing::StartsWith("rank 2 (host h1, pid 1002) never submitted 'x'; rank 1 has"));
}

TEST(StallJudge, AProcessSetIsClosedByEachMemberInItsOwnTime) {
  StallJudge judge = make_judge();
  std::vector<RankSnapshot> ranks = {make_rank(0, "horo.shutdown", 100 * kSecond), make_rank(1)};
  ranks[0].open[0].kind = "shutdown";
  EXPECT_TRUE(judge.look(ranks, 110 * kSecond).say) << "of the job";
  StallJudge patient = make_judge();
  ranks[0].open[0].process_set = "{0, 1}";
  EXPECT_FALSE(patient.look(ranks, 1000 * kSecond).say);
}

TEST(StallJudge, ATimeoutBelowTheWarningIsKept) {
  StallJudge judge(10s, 1s);
  const auto decision = judge.look(waiting(), 102 * kSecond);
  EXPECT_TRUE(decision.say);
  EXPECT_TRUE(decision.end);
}

}  // namespace
}  // namespace horo::observe

#include "horo/watchdog/stall_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/watchdog/watchdog.h"
#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
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

StallPolicy make_policy() { return StallPolicy(3s, 20s); }

TEST(StallPolicy, IsSilentWithoutWaiters) {
  StallPolicy policy = make_policy();
  for (int second = 100; second < 1000; second += 10) {
    const auto decision = policy.evaluate({make_rank(0), make_rank(1)}, second * kSecond);
    EXPECT_FALSE(decision.warning);
    EXPECT_FALSE(decision.abort_reason);
  }
}

TEST(StallPolicy, ReportsUnexplainedWaitsOncePerInterval) {
  StallPolicy policy = make_policy();
  const auto texts = [&](std::chrono::nanoseconds age, int second) {
    const LongWaits::Wait waits[] = {{"x", age, "x waits"}};
    std::vector<std::string> due;
    for (const LongWaits::Wait& wait : policy.unexplained_waits(waits, second * kSecond, 1s))
      due.push_back(wait.text);
    return due;
  };
  EXPECT_THAT(texts(3s, 103), ElementsAre());
  EXPECT_THAT(texts(4s, 104), ElementsAre("x waits"));
  EXPECT_THAT(texts(15s, 115), ElementsAre());
  EXPECT_THAT(texts(16s, 116), ElementsAre("x waits"));
}

TEST(StallPolicy, VerdictExplainsWaits) {
  StallPolicy policy = make_policy();
  ASSERT_TRUE(policy.evaluate(waiting(), 104 * kSecond).warning);
  const LongWaits::Wait waits[] = {{"x", 10s, "x waits"}};
  EXPECT_TRUE(policy.explains_waits());
  EXPECT_TRUE(policy.unexplained_waits(waits, 105 * kSecond, 1s).empty());
}

TEST(LongWaits, NotesExpire) {
  LongWaits waits;
  const LongWaits::Time start = LongWaits::Time{} + 1h;
  waits.note("x", 3s, "x has waited 3s", start);
  waits.note("x", 4s, "x has waited 4s", start + 1s);
  ASSERT_EQ(waits.current(start + 2s).size(), 1u);
  EXPECT_EQ(waits.current(start + 2s)[0].text, "x has waited 4s");
  EXPECT_TRUE(waits.current(start + 3s).empty());
}

TEST(StallPolicy, ReportsLateRankRepeatsAndReportsItsEnd) {
  StallPolicy policy = make_policy();
  EXPECT_FALSE(policy.evaluate(waiting(), 102 * kSecond).warning);
  const auto first = policy.evaluate(waiting(), 104 * kSecond);
  ASSERT_TRUE(first.warning);
  EXPECT_THAT(*first.warning, AllOf(HasSubstr("'x'"), HasSubstr("rank 1 (host h0")));
  EXPECT_FALSE(first.abort_reason);
  for (int second = 105; second < 116; ++second)
    EXPECT_FALSE(policy.evaluate(waiting(), second * kSecond).warning) << second;
  EXPECT_TRUE(policy.evaluate(waiting(), 116 * kSecond).warning);
  const auto over = policy.evaluate({make_rank(0), make_rank(1)}, 117 * kSecond);
  ASSERT_TRUE(over.warning);
  EXPECT_THAT(*over.warning,
              AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("no longer"), HasSubstr("13 s")));
  EXPECT_FALSE(policy.evaluate({make_rank(0), make_rank(1)}, 118 * kSecond).warning);
}

TEST(StallPolicy, WaitsForNewerSnapshots) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = waiting();
  ranks[0].taken = 103 * kSecond;
  ranks[1].taken = 1 * kSecond;
  for (int second : {104, 105}) {
    EXPECT_FALSE(policy.evaluate(ranks, second * kSecond).warning)
        << "rank 0 may have completed it by now";
  }
  ranks[0].taken = 104 * kSecond + 1;
  EXPECT_TRUE(policy.evaluate(ranks, 105 * kSecond).warning);
  // The other ranks have finished 'x'. The snapshot of rank 2 is older and still has it open.
  ranks = {make_rank(0), make_rank(1), make_rank(2, "x", 100 * kSecond)};
  ranks[2].taken = 105 * kSecond;
  EXPECT_FALSE(policy.evaluate(ranks, 106 * kSecond).warning);
  ranks[2].open.clear();
  const auto over = policy.evaluate(ranks, 107 * kSecond);
  ASSERT_TRUE(over.warning);
  EXPECT_THAT(*over.warning, HasSubstr("rank 1 (host h0, pid 1001) no longer"));
}

// Every rank publishes, every node sends and rank 0 checks once per interval, in any order.
TEST(StallPolicy, ReportsStallWithinFourIntervals) {
  const WatchdogOptions options;
  const WallTime interval = watchdog_interval(options).count();
  const WallTime stall = options.stall_warning.count();
  EXPECT_LE(stall + 4 * interval, 5 * kSecond) << "as docs/internals/watchdog.md promises";
  constexpr int kPhases = 5;
  constexpr WallTime kBegin = 100 * kSecond;
  const auto last_before = [&](WallTime time, int phase) {
    const WallTime first = phase * interval / kPhases;
    return first + (time - first) / interval * interval;
  };
  for (int publication = 0; publication < kPhases; ++publication)
    for (int message = 0; message < kPhases; ++message)
      for (int check = 0; check < kPhases; ++check) {
        StallPolicy policy(options.stall_warning, options.timeout);
        std::optional<WallTime> reported;
        for (WallTime now = last_before(kBegin, check); !reported && now < kBegin + 2 * stall;
             now += interval) {
          const WallTime sent = last_before(now, message);
          const WallTime published = last_before(sent, publication);
          std::vector<RankSnapshot> ranks = {
              published < kBegin ? make_rank(0) : make_rank(0, "x", kBegin), make_rank(1)};
          for (RankSnapshot& rank : ranks) rank.taken = published;
          if (policy.evaluate(std::move(ranks), now).warning) reported = now;
        }
        ASSERT_TRUE(reported);
        EXPECT_GT(*reported, kBegin + stall);
        EXPECT_LE(*reported, kBegin + stall + 4 * interval)
            << publication << " " << message << " " << check;
      }
}

TEST(StallPolicy, IgnoresLongQueueThatMakesProgress) {
  StallPolicy policy = make_policy();
  for (int second = 104; second < 200; ++second) {
    // Each operation waits for 10 s. The snapshot of rank 1 is newer: it has finished the operation
    // of rank 0.
    std::vector<RankSnapshot> ranks = {
        make_rank(0, "operation " + std::to_string(second), (second - 10) * kSecond), make_rank(1)};
    for (RankSnapshot& rank : ranks) rank.taken = second * kSecond;
    EXPECT_FALSE(policy.evaluate(ranks, second * kSecond + 1).warning) << second;
  }
}

TEST(StallPolicy, AbortsAfterTimeout) {
  StallPolicy policy = make_policy();
  EXPECT_FALSE(policy.evaluate(waiting(), 119 * kSecond).abort_reason);
  const auto decision = policy.evaluate(waiting(), 121 * kSecond);
  ASSERT_TRUE(decision.abort_reason);
  EXPECT_THAT(*decision.abort_reason, AllOf(HasSubstr("'x'"), HasSubstr("rank 1 (host h0"),
                                            HasSubstr("(HORO_TIMEOUT is 20 s)")));
  const auto later = policy.evaluate(waiting(), 150 * kSecond);
  EXPECT_FALSE(later.warning || later.abort_reason) << "the job was aborted already";
}

TEST(StallPolicy, DeadRankAbortsAtOnce) {
  StallPolicy policy = make_policy();
  const auto decision = policy.evaluate(with(Liveness::kDead), 100 * kSecond);
  ASSERT_TRUE(decision.warning && decision.abort_reason);
  EXPECT_THAT(*decision.warning, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("1001")));
  EXPECT_EQ(*decision.abort_reason, *decision.warning);
}

TEST(StallPolicy, DepartedRankAbortsWhenReported) {
  StallPolicy policy = make_policy();
  for (const int second : {100, 101, 102}) {
    const auto decision = policy.evaluate(with(Liveness::kEnded), second * kSecond);
    EXPECT_FALSE(decision.warning || decision.abort_reason) << second;
  }
  const auto decision = policy.evaluate(with(Liveness::kEnded), 104 * kSecond);
  ASSERT_TRUE(decision.abort_reason);
  EXPECT_THAT(*decision.abort_reason,
              AllOf(HasSubstr("rank 1 (host"), HasSubstr("has ended early")));
  EXPECT_EQ(decision.warning.has_value(), true);
}

TEST(StallPolicy, ReportsStoppedRankAtOnceAndAbortsAfterTimeout) {
  StallPolicy policy = make_policy();
  const auto decision = policy.evaluate(with(Liveness::kStopped), 100 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("stopped")));
  EXPECT_FALSE(policy.evaluate(with(Liveness::kStopped), 119 * kSecond).abort_reason);
  EXPECT_TRUE(policy.evaluate(with(Liveness::kStopped), 120 * kSecond).abort_reason);
}

TEST(StallPolicy, ReportsResumedRankOnce) {
  StallPolicy policy = make_policy();
  EXPECT_TRUE(policy.evaluate(with(Liveness::kStopped), 101 * kSecond).warning);
  const auto resumed = policy.evaluate({make_rank(0), make_rank(1)}, 106 * kSecond);
  ASSERT_TRUE(resumed.warning);
  EXPECT_THAT(*resumed.warning, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("5 s")));
  EXPECT_FALSE(policy.evaluate({make_rank(0), make_rank(1)}, 107 * kSecond).warning);
}

TEST(StallPolicy, ReportsWaitForStoppedRankOnce) {
  StallPolicy policy = make_policy();
  const auto evaluate = [&](const std::vector<RankSnapshot>& ranks, double second) {
    return policy.evaluate(ranks, static_cast<WallTime>(second * kSecond)).warning.value_or("");
  };
  std::vector<RankSnapshot> ranks = {make_rank(0), make_rank(1)};
  ranks[1].liveness = Liveness::kStopped;
  EXPECT_THAT(evaluate(ranks, 100), AllOf(HasSubstr("is stopped"), Not(HasSubstr("waited"))));
  ranks = with(Liveness::kStopped);
  ranks[0].open[0].submitted = 101 * kSecond;
  EXPECT_EQ(evaluate(ranks, 101.5), "") << "it may complete without rank 1";
  EXPECT_THAT(evaluate(ranks, 102.5), HasSubstr("rank 0 has waited 1.5 s for 'x'"));
  for (int second = 103; second < 114; ++second) EXPECT_EQ(evaluate(ranks, second), "") << second;
  EXPECT_THAT(evaluate(ranks, 115), HasSubstr("'x'")) << "as often as any stall";
}

TEST(StallPolicy, SkipsWaitReportedWithStoppedRank) {
  for (const char* later : {"x", "y"}) {
    StallPolicy policy = make_policy();
    EXPECT_TRUE(policy.evaluate(with(Liveness::kStopped), 100 * kSecond).warning);
    std::vector<RankSnapshot> ranks = {make_rank(0, later, 100 * kSecond), make_rank(1)};
    ranks[1].liveness = Liveness::kStopped;
    EXPECT_EQ(policy.evaluate(ranks, 102 * kSecond).warning.has_value(), later[0] == 'y');
    EXPECT_FALSE(policy.evaluate(ranks, 103 * kSecond).warning);
  }
}

TEST(StallPolicy, ReportsStoppedRankDespiteSlowLink) {
  StallPolicy policy = make_policy();
  auto ranks = exchanging();
  ranks[2].open = ranks[0].open;
  ranks[2].liveness = Liveness::kStopped;
  const auto decision = policy.evaluate(ranks, 102 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning, HasSubstr("ranks 0-1 have waited 2 s for it in 'g/w'"));
}

TEST(StallPolicy, ReportsEndForSeveralRanksTogether) {
  StallPolicy policy = make_policy();
  const std::vector<RankSnapshot> late = {make_rank(0, "x", 100 * kSecond), make_rank(1),
                                          make_rank(2)};
  EXPECT_TRUE(policy.evaluate(late, 104 * kSecond).warning);
  const auto over = policy.evaluate({make_rank(0), make_rank(1), make_rank(2)}, 105 * kSecond);
  EXPECT_THAT(over.warning.value_or(""),
              HasSubstr("ranks 1-2 (host h0, pid 1001; host h1, pid 1002) "
                        "no longer block the others"));
}

TEST(StallPolicy, HandOverEndsReportedStall) {
  StallPolicy policy = make_policy();
  EXPECT_FALSE(policy.hand_over(100 * kSecond));
  EXPECT_TRUE(policy.evaluate(with(Liveness::kStopped), 101 * kSecond).warning);
  const auto over = policy.hand_over(108 * kSecond);
  ASSERT_TRUE(over);
  EXPECT_THAT(*over, AllOf(HasSubstr("rank 1 (host h0"), HasSubstr("7 s")));
  EXPECT_FALSE(policy.hand_over(109 * kSecond));
}

TEST(StallPolicy, PauseIsNotAStall) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> paused = waiting();
  paused[1].pause = "checkpoint";
  paused[1].pause_since = 100 * kSecond;
  for (int second = 100; second < 200; second += 5) {
    const auto decision = policy.evaluate(paused, second * kSecond);
    EXPECT_FALSE(decision.warning || decision.abort_reason) << second;
    EXPECT_EQ(decision.notice.has_value(), second >= 120 && second % 20 == 0) << second;
  }
  EXPECT_FALSE(policy.evaluate(waiting(), 197 * kSecond).warning);
  EXPECT_TRUE(policy.evaluate(waiting(), 199 * kSecond).warning);
  EXPECT_FALSE(policy.evaluate(waiting(), 214 * kSecond).abort_reason);
  EXPECT_TRUE(policy.evaluate(waiting(), 216 * kSecond).abort_reason);
}

TEST(StallPolicy, GivesNoticeOfLongPause) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> paused = {make_rank(0), make_rank(1), make_rank(2)};
  for (int rank : {1, 2}) {
    paused[rank].pause = "checkpoint";
    paused[rank].pause_since = (90 + rank) * kSecond;
  }
  const auto first = policy.evaluate(paused, 112 * kSecond);
  ASSERT_TRUE(first.notice);
  EXPECT_THAT(*first.notice,
              HasSubstr("ranks 1-2 (host h0, pid 1001; host h1, pid 1002) have been in "
                        "pause 'checkpoint' for 21 s; no rank waits for them"));
  EXPECT_FALSE(policy.evaluate(paused, 131 * kSecond).notice);
  paused[0] = make_rank(0, "loss", 120 * kSecond);
  const auto second = policy.evaluate(paused, 132 * kSecond);
  ASSERT_TRUE(second.notice);
  EXPECT_THAT(*second.notice, HasSubstr("for 41 s; rank 0 has waited 12 s for 'loss'"));
  EXPECT_FALSE(second.warning || second.abort_reason);
  // Another pause counts from its own start. Time without any running rank does not count.
  for (int rank : {1, 2}) paused[rank].pause_since = 133 * kSecond;
  EXPECT_FALSE(policy.evaluate(paused, 150 * kSecond).notice);
  EXPECT_TRUE(policy.evaluate(paused, 153 * kSecond).notice);
  policy.restart_timers(5000 * kSecond);
  EXPECT_FALSE(policy.evaluate(paused, 5019 * kSecond).notice);
  EXPECT_TRUE(policy.evaluate(paused, 5020 * kSecond).notice);
}

TEST(StallPolicy, GivesNoticeOfLongCallbackOncePerTimeout) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = {make_rank(0), make_rank(1)};
  ranks[1].callback = "loss";
  ranks[1].callback_since = 100 * kSecond;
  EXPECT_FALSE(policy.evaluate(ranks, 102 * kSecond).notice);
  const auto first = policy.evaluate(ranks, 106 * kSecond);
  ASSERT_TRUE(first.notice);
  EXPECT_THAT(*first.notice,
              HasSubstr("rank 1 (host h0, pid 1001) has been in the completion callback "
                        "of 'loss' for 6 s: its other operations wait"));
  EXPECT_FALSE(first.warning || first.abort_reason);
  EXPECT_FALSE(policy.evaluate(ranks, 120 * kSecond).notice);
  EXPECT_TRUE(policy.evaluate(ranks, 126 * kSecond).notice);
}

TEST(StallPolicy, ReportsRankThatDiesInPause) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = with(Liveness::kDead);
  ranks[1].pause = "checkpoint";
  EXPECT_TRUE(policy.evaluate(ranks, 101 * kSecond).abort_reason);
}

TEST(StallPolicy, IgnoresTimeOfOwnSuspension) {
  StallPolicy policy = make_policy();
  policy.restart_timers(5000 * kSecond);
  EXPECT_FALSE(policy.evaluate(waiting(), 5002 * kSecond).warning);
  EXPECT_TRUE(policy.evaluate(waiting(), 5004 * kSecond).warning);
  EXPECT_FALSE(policy.evaluate(waiting(), 5019 * kSecond).abort_reason);
  EXPECT_TRUE(policy.evaluate(waiting(), 5021 * kSecond).abort_reason);
}

TEST(StallPolicy, ReportsVerdictOnOtherRank) {
  StallPolicy policy = make_policy();
  EXPECT_TRUE(policy.evaluate(waiting(), 104 * kSecond).warning);
  const auto decision =
      policy.evaluate({make_rank(0), make_rank(1, "y", 100 * kSecond)}, 105 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning, HasSubstr("'y'"));
}

TEST(StallPolicy, AllowsForLargeExchangeOverSlowLink) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = {make_rank(0, "x", 100 * kSecond),
                                     make_rank(1, "x", 100 * kSecond)};
  for (RankSnapshot& rank : ranks) {
    rank.open[0].bytes = 1'000'000'000;
    rank.open[0].started = 100 * kSecond;
  }
  for (int second = 100; second < 200; ++second) {
    const auto decision = policy.evaluate(ranks, second * kSecond);
    EXPECT_FALSE(decision.warning || decision.abort_reason) << second;
  }
}

TEST(StallPolicy, OverdueWaitEndsAllowanceForLargeExchange) {
  StallPolicy policy = make_policy();
  auto ranks = exchanging();
  ranks[2].open = ranks[0].open;
  EXPECT_FALSE(policy.evaluate(ranks, 119 * kSecond).warning);
  ranks[1].has_overdue_wait = true;
  for (RankSnapshot& rank : ranks) rank.taken = 120 * kSecond;
  EXPECT_FALSE(policy.evaluate(ranks, 120 * kSecond).abort_reason);  // not confirmed yet
  for (RankSnapshot& rank : ranks) rank.taken = 121 * kSecond;
  const auto decision = policy.evaluate(ranks, 121 * kSecond);
  ASSERT_TRUE(decision.abort_reason);
  EXPECT_THAT(*decision.abort_reason, HasSubstr("'g/w'"));
}

TEST(StallPolicy, AllowsOnlyForStartedGradientExchanges) {
  StallPolicy policy = make_policy();
  const auto decision = policy.evaluate(exchanging(), 104 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning, HasSubstr("rank 2 (host h1, pid 1002) never marked 'g/w'"));
  StallPolicy patient = make_policy();
  auto all = exchanging();
  all[2].open = all[0].open;
  for (int second = 104; second < 200; ++second)
    EXPECT_FALSE(patient.evaluate(all, second * kSecond).warning) << second;
  EXPECT_TRUE(patient.evaluate(all, 204 * kSecond).warning);
}

TEST(StallPolicy, MarkedGradientIsNotAWait) {
  StallPolicy policy = make_policy();
  for (int second = 100; second < 1000; second += 10) {
    std::vector<RankSnapshot> ranks = {make_rank(0, "g/w", second * kSecond), make_rank(1)};
    ranks[0].open[0].kind = "gradient";
    EXPECT_FALSE(policy.evaluate(ranks, second * kSecond).warning) << second;
  }
}

TEST(StallPolicy, JoinedRankWaitsWhileOthersProgress) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = {make_rank(0, "horo.join", 100 * kSecond), make_rank(1)};
  ranks[0].open[0].kind = "join";
  for (int second = 100; second < 300; ++second) {
    ranks[1].last_finished_at = (second - second % 2) * kSecond;
    const auto decision = policy.evaluate(ranks, second * kSecond);
    EXPECT_FALSE(decision.warning || decision.abort_reason) << second;
  }
  EXPECT_TRUE(policy.evaluate(ranks, 302 * kSecond).warning);
  EXPECT_TRUE(policy.evaluate(ranks, 319 * kSecond).abort_reason);
}

TEST(StallPolicy, JoinedRankIsNotBlamed) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = {make_rank(0, "horo.join", 100 * kSecond),
                                     make_rank(1, "x", 101 * kSecond), make_rank(2)};
  ranks[0].open[0].kind = "join";
  ranks[1].last_finished_at = 101 * kSecond;
  const auto decision = policy.evaluate(ranks, 105 * kSecond);
  ASSERT_TRUE(decision.warning);
  EXPECT_THAT(*decision.warning,
              ::testing::StartsWith("rank 2 (host h1, pid 1002) never submitted 'x'; rank 1 has"));
}

TEST(StallPolicy, ClosingProcessSetIsNotAStall) {
  StallPolicy policy = make_policy();
  std::vector<RankSnapshot> ranks = {make_rank(0, "horo.shutdown", 100 * kSecond), make_rank(1)};
  ranks[0].open[0].kind = "shutdown";
  EXPECT_TRUE(policy.evaluate(ranks, 110 * kSecond).warning) << "of the job";
  StallPolicy patient = make_policy();
  ranks[0].open[0].process_set = "{0, 1}";
  EXPECT_FALSE(patient.evaluate(ranks, 1000 * kSecond).warning);
}

TEST(StallPolicy, KeepsTimeoutBelowWarning) {
  StallPolicy policy(10s, 1s);
  const auto decision = policy.evaluate(waiting(), 102 * kSecond);
  EXPECT_TRUE(decision.warning);
  EXPECT_TRUE(decision.abort_reason);
}

}  // namespace
}  // namespace horo::observe

#include "horo/diagnosis/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diagnosis/job_snapshots.h"

namespace horo::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = Verdict::Kind;

constexpr std::chrono::seconds kStall{10};

Verdict verdict_of(const std::vector<RankSnapshot>& job) { return diagnose(job, kNow, kStall); }

TEST(Diagnose, FindsNothingWithoutWaiters) {
  EXPECT_EQ(verdict_of(quiet_job(4)).kind, Kind::kNone);
  EXPECT_EQ(verdict_of(quiet_job(4)).text, "");
  EXPECT_EQ(verdict_of({}).kind, Kind::kNone);
}

TEST(Diagnose, NamesRankOfMissingGradientAndItsPast) {
  auto job = quiet_job(4);
  for (int r : {0, 1, 2}) submit(job[r], "grad/fc2.weight", 41, "gradient");
  job[3].phase = "data";
  job[3].phase_since = kNow - 42 * kSecond;
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(3));
  EXPECT_EQ(verdict.text,
            "rank 3 (host b, pid 4703) never marked 'grad/fc2.weight'; ranks 0-2 have waited 41 s "
            "for it; it last finished 'step' 43 s ago, in phase 'data' for 42 s");
}

// As after a link failure between two ranks, when the other ranks have finished the exchange.
TEST(Diagnose, ReportsStuckExchangeDespiteLaterWork) {
  auto job = quiet_job(4);
  for (int r : {1, 3}) submit(job[r], "metric", 42, "allreduce", true);
  for (int r : {0, 2}) submit(job[r], "net/g5", 41, "gradient");
  const Verdict verdict = verdict_of(job);
  EXPECT_THAT(verdict.blamed, ElementsAre(1, 3));
  EXPECT_THAT(verdict.text,
              HasSubstr("have been in allreduce 'metric' for 42 s and ranks 0 and 2 have "
                        "finished it: the exchange makes no progress"));
}

TEST(Diagnose, NamesRankWithoutMpiFinalize) {
  auto job = quiet_job(3);
  for (int r : {0, 2}) submit(job[r], "MPI_Finalize", 41, "finalize");
  job[1].last_finished = "horo.shutdown";
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("never called 'MPI_Finalize'; ranks 0 and 2 have waited 41 s "
                                      "for it; it last finished 'horo.shutdown'"));
}

// Ranks 0 and 3 are not part of the message, so they are not missing.
TEST(Diagnose, NamesPeerThatDoesNotReceive) {
  auto job = quiet_job(4);
  submit(job[1], "x (rank 1 to rank 2)", 41, "send");
  job[1].open.back().process_set = "{1, 2}";
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(2));
  EXPECT_EQ(verdict.text,
            "rank 2 (host b, pid 4702) never called recv() for 'x (rank 1 to rank 2)'; rank 1 has "
            "waited 41 s for it; it last finished 'step' 43 s ago");
}

// As in a pipeline: rank 2 waits for rank 1, which waits for rank 0, which computes.
TEST(Diagnose, NamesRankAtTheEndOfAChainOfMessages) {
  auto job = quiet_job(3);
  submit(job[2], "x (rank 1 to rank 2)", 41, "recv");
  job[2].open.back().process_set = "{1, 2}";
  submit(job[1], "x (rank 0 to rank 1)", 40, "recv");
  job[1].open.back().process_set = "{0, 1}";
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(0));
  EXPECT_THAT(verdict.text, HasSubstr("never called send() for 'x (rank 0 to rank 1)'"));
}

TEST(Diagnose, NamesRanksThatSendToEachOther) {
  auto job = quiet_job(2);
  submit(job[0], "x (rank 0 to rank 1)", 41, "send");
  submit(job[1], "y (rank 1 to rank 0)", 40, "send");
  for (RankSnapshot& rank : job) rank.open.back().process_set = "{0, 1}";
  EXPECT_THAT(verdict_of(job).text,
              HasSubstr("ranks wait for each other in different operations: rank 0 (host a, pid "
                        "4700) in send 'x (rank 0 to rank 1)' for 41 s, rank 1 (host a, pid 4701) "
                        "in send 'y (rank 1 to rank 0)' for 40 s"));
}

TEST(Diagnose, NamesBlockingCallback) {
  auto job = quiet_job(3);
  for (RankSnapshot& rank : job) submit(rank, "x", 41);
  job[1].callback = "loss";
  job[1].callback_since = kNow - 42 * kSecond;
  const Verdict verdict = verdict_of(job);
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
  EXPECT_THAT(verdict.text, HasSubstr("has been in the completion callback of 'loss' for 42 s: its "
                                      "other operations wait for its return; ranks 0-2 have been "
                                      "in allreduce 'x' for 41 s"));
}

TEST(Diagnose, MentionsCallbackOfMissingRank) {
  auto job = quiet_job(3);
  for (int r : {0, 2}) submit(job[r], "x", 41);
  job[1].callback = "loss";
  job[1].callback_since = kNow - 42 * kSecond;
  EXPECT_THAT(verdict_of(job).text, HasSubstr("never submitted 'x'"));
  EXPECT_THAT(verdict_of(job).text, HasSubstr("in the completion callback of 'loss' for 42 s"));
}

TEST(Diagnose, DoesNotBlameRankReturnedFromMpiFinalize) {
  auto job = quiet_job(3);
  submit(job[0], "MPI_Finalize", 41, "finalize");
  for (int r : {1, 2}) job[r].liveness = Liveness::kEnded;
  EXPECT_NE(verdict_of(job).kind, Kind::kEnded);
  EXPECT_NE(verdict_of(job).kind, Kind::kMissing);
}

TEST(Diagnose, NamesSeveralMissingRanksTogether) {
  auto job = quiet_job(4);
  submit(job[1], "loss", 20);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(0, 2, 3));
  EXPECT_EQ(verdict.text,
            "ranks 0 and 2-3 (host a, pid 4700; host b, pids 4702, 4703) never submitted 'loss'; "
            "rank 1 has waited 20 s for it; ranks 0 and 2-3 last finished 'step' 43 s ago");
}

TEST(Diagnose, SeparatesRanksByTheirPast) {
  auto job = quiet_job(4);
  submit(job[1], "loss", 20);
  job[0].last_finished.clear();
  job[2].last_finished_at = kNow - 50 * kSecond;
  EXPECT_THAT(verdict_of(job).text,
              HasSubstr("; rank 0 has finished nothing; ranks 2-3 last finished "
                        "'step' 50 s ago"));
}

TEST(Diagnose, NamesHostAndPidOfFirstRanksOnly) {
  auto job = quiet_job(20);
  submit(job[1], "loss", 20);
  EXPECT_THAT(verdict_of(job).text,
              testing::StartsWith("ranks 0 and 2-19 (host a, pid 4700; host b, pids 4702, 4703, "
                                  "4704; and 15 more) never submitted 'loss'; rank 1 has"));
}

TEST(Diagnose, ReportsShortWaitAsLateOrNothing) {
  auto job = quiet_job(2);
  submit(job[0], "loss", 5);
  EXPECT_EQ(verdict_of(job).kind, Kind::kLate);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
  EXPECT_THAT(verdict_of(job).text, HasSubstr("rank 1 (host a, pid 4701) is late with 'loss'"));
  job[0].open[0].submitted = kNow - kSecond / 2;
  EXPECT_EQ(verdict_of(job).kind, Kind::kNone);
}

TEST(Diagnose, IgnoresDeathAboutWhenNamedRankFailed) {
  auto job = quiet_job(4);
  for (int r : {1, 2}) {
    job[r].failure = "crashed: signal 11 (Segmentation fault)";
    job[r].taken = kNow - kSecond / 10 + r;
  }
  job[2].ending = "was killed by signal 11 (Segmentation fault)";
  job[0].liveness = Liveness::kDead;
  job[0].last_sign_of_life = kNow - kSecond / 5;
  submit(job[1], "plan", 1);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kFailed) << verdict.text;
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
  job[0].last_sign_of_life = kNow - 5 * kSecond;
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
}

TEST(Diagnose, IgnoresSilenceReportThatNamesTheRank) {
  auto job = quiet_job(4);
  for (int r : {2, 3})
    job[r].failure =
        "ranks 0-1 and 3 (host a) have sent no heartbeat for 10 s; rank 2 has "
        "waited 10 s for 'loss' (HORO_TIMEOUT is 8 s)";
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.text, job[2].failure);
  EXPECT_THAT(verdict.blamed, ElementsAre(0, 1, 3));
}

TEST(Diagnose, PrefersDeadRankToOtherCauses) {
  auto job = quiet_job(4);
  job[2].liveness = Liveness::kDead;
  job[2].last_sign_of_life = kNow - 30 * kSecond;
  job[1].failure = "CommunicationError";
  job[3].liveness = Liveness::kStopped;
  submit(job[0], "loss", 29);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kDead);
  EXPECT_THAT(verdict.blamed, ElementsAre(2));
  EXPECT_THAT(verdict.text, HasSubstr("rank 2 (host b, pid 4702) is dead"));
  EXPECT_THAT(verdict.text, HasSubstr("last heartbeat 30 s ago"));
  EXPECT_THAT(verdict.text, HasSubstr("rank 0 has waited 29 s for 'loss'"));
}

TEST(Diagnose, IgnoresDeadRankThatWaitedForDeadRank) {
  auto job = quiet_job(4);
  for (int r : {0, 3}) job[r].liveness = Liveness::kDead;
  job[3].last_sign_of_life = kNow - kSecond;
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(0, 3));
  for (int r : {0, 1, 2}) submit(job[r], "loss", 1);
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(3));
  EXPECT_THAT(verdict_of(job).text, HasSubstr("rank 3 (host b, pid 4703) is dead"));
  // Each waits for the other, but one of them is named.
  submit(job[3], "accuracy", 1);
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
  EXPECT_EQ(verdict_of(job).blamed.size(), 1u);
}

TEST(Diagnose, BlamesFirstOfAllDeadRanks) {
  auto job = quiet_job(3);
  for (RankSnapshot& rank : job) rank.liveness = Liveness::kDead;
  job[1].last_sign_of_life = kNow - 5 * kSecond;
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
}

TEST(Diagnose, JudgesKilledJobByItsActivity) {
  auto job = quiet_job(3);
  for (RankSnapshot& rank : job) rank.liveness = Liveness::kDead;
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(0, 1, 2));
  EXPECT_THAT(verdict_of(job).text, HasSubstr("all 3 ranks were killed at about the same time"));
  for (int r : {0, 2}) submit(job[r], "loss", 60);
  EXPECT_EQ(verdict_of(job).kind, Kind::kMissing);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
}

TEST(Diagnose, PrefersStoppedRankToFailedOne) {
  auto job = quiet_job(3);
  job[1].liveness = Liveness::kStopped;
  job[2].failure = "waited 5min";
  submit(job[0], "loss", 30);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kStopped);
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
  EXPECT_EQ(verdict.text,
            "rank 1 (host a, pid 4701) is stopped (SIGSTOP, or a debugger); rank 0 has waited 30 s "
            "for 'loss'; it last finished 'step' 43 s ago; kill -CONT 4701 on host a resumes it");
  EXPECT_EQ(verdict.awaited, "loss");
  EXPECT_EQ(verdict.awaited_since, kNow - 30 * kSecond);
}

TEST(Diagnose, NamesStoppedRanksWithoutWaiters) {
  auto job = quiet_job(4);
  for (int r : {1, 2, 3}) job[r].liveness = Liveness::kStopped;
  EXPECT_EQ(verdict_of(job).text,
            "ranks 1-3 (host a, pid 4701; host b, pids 4702, 4703) are stopped (SIGSTOP, or a "
            "debugger); ranks 1-3 last finished 'step' 43 s ago; kill -CONT 4701 on host a, kill "
            "-CONT 4702 4703 on host b resumes them");
  EXPECT_EQ(verdict_of(job).awaited, "");
}

TEST(Diagnose, NamesStoppedRankInExchange) {
  auto job = quiet_job(4);
  job[1].liveness = Liveness::kStopped;
  for (const char* name : {"g/a", "g/b"}) submit(job[1], name, 9, "gradient");
  for (int r : {0, 2}) submit(job[r], "g/a", 5, "gradient", true);
  submit(job[0], "g/b", 5, "gradient");  // marked, and not exchanged yet
  submit(job[3], "g/a", 7, "gradient");
  EXPECT_THAT(verdict_of(job).text,
              HasSubstr("; ranks 0 and 2 have waited 5 s for it in 'g/a'; it "));
  for (RankSnapshot& rank : job)
    for (OpenOperation& open : rank.open) open.started = 0;
  EXPECT_THAT(verdict_of(job).text, Not(HasSubstr("waited"))) << "they compute";
}

// Its snapshot is older than the operation of the others, or its last messages have not left it.
TEST(Diagnose, NamesStoppedRankInOperationThatItFinished) {
  auto job = quiet_job(3);
  job[1].liveness = Liveness::kStopped;
  job[1].last_finished = "metric";
  for (int r : {0, 2}) submit(job[r], "metric", 5, "allreduce", true);
  EXPECT_EQ(verdict_of(job).text,
            "rank 1 (host a, pid 4701) is stopped (SIGSTOP, or a debugger); ranks 0 and 2 have "
            "waited 5 s for it in 'metric'; it last finished 'metric' 43 s ago; kill -CONT 4701 "
            "on host a resumes it");
  EXPECT_EQ(verdict_of(job).awaited, "metric");
  EXPECT_EQ(verdict_of(job).awaited_since, kNow - 5 * kSecond);
}

TEST(Diagnose, NamesStoppedRankAheadInPlan) {
  auto job = quiet_job(3);
  job[1].liveness = Liveness::kStopped;
  for (int r : {0, 2}) {
    submit(job[r], "net/w", 5, "gradient", true);
    job[r].open.back().plan = 7;
  }
  for (RankSnapshot& rank : job) rank.plans = {{.plan = 7, .buckets = rank.rank == 1 ? 5u : 4u}};
  EXPECT_THAT(verdict_of(job).text,
              HasSubstr("ranks 0 and 2 have waited 5 s for it in 'net/w'; it"));
}

TEST(Diagnose, OmitsStoppedRankWhereAnotherRankBlocks) {
  auto job = quiet_job(4);
  job[1].liveness = Liveness::kStopped;
  submit(job[0], "net/w", 5, "gradient", true);
  job[0].open.back().plan = 7;
  for (RankSnapshot& rank : job) rank.plans = {{.plan = 7, .buckets = rank.rank == 1 ? 5u : 4u}};
  EXPECT_THAT(verdict_of(job).text, Not(HasSubstr("waited"))) << "ranks 2 and 3 have not marked it";
  job[0].open.clear();
  submit(job[0], "{0, 2}.loss", 5, "allreduce", true);
  job[0].open.back().process_set = "{0, 2}";
  EXPECT_THAT(verdict_of(job).text, Not(HasSubstr("waited"))) << "rank 1 is not in the set";
}

TEST(Diagnose, FirstFailureIsTheCause) {
  auto job = quiet_job(3);
  job[0].failure = "disk full";
  job[0].taken = kNow - kSecond;
  job[2].failure = "out of memory";
  job[2].taken = kNow - 2 * kSecond;
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kFailed);
  EXPECT_THAT(verdict.blamed, ElementsAre(2));
  EXPECT_THAT(verdict.text, HasSubstr("rank 2 (host b, pid 4702) failed: out of memory; it is the "
                                      "first of 2 ranks that failed; it last finished 'step'"));
  submit(job[1], "loss", 12);
  EXPECT_THAT(verdict_of(job).text, HasSubstr("that failed; it last finished 'step' 43 s ago"));
  job[0].failure.clear();
  EXPECT_THAT(verdict_of(job).text,
              HasSubstr("memory; rank 1 has waited 12 s for 'loss'; it last fin"));
}

TEST(Diagnose, FailureThatNamesEarlierOneIsAConsequence) {
  auto job = quiet_job(3);
  job[0].failure = "'loss': rank 2 (host b) failed with an exception";
  job[0].taken = kNow - kSecond;
  job[2].failure = "rank 2 (host b) failed with an exception";
  job[2].taken = kNow - 2 * kSecond;
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2));
  EXPECT_THAT(verdict_of(job).text,
              testing::StartsWith("rank 2 (host b, pid 4702) failed with an exception; it last"));
  // A text may quote an older error. Only an earlier failure is a cause.
  job[2].taken = kNow;
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(0));
}

TEST(Diagnose, AbortedRankIsNotTheCause) {
  auto job = quiet_job(3);
  for (int r : {0, 1}) {
    job[r].failure = "rank 2 (host b) failed with an exception";
    job[r].is_aborted = true;
    job[r].taken = kNow - 3 * kSecond;  // by a wrong clock
  }
  job[2].failure = "rank 2 (host b) failed with an exception";
  job[2].taken = kNow - 2 * kSecond;
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2));
  job[2].failure = "out of memory";
  EXPECT_THAT(verdict_of(job).text,
              testing::StartsWith("rank 2 (host b, pid 4702) failed: out of mem"));
  for (int r : {0, 1}) job[r].is_aborted = false;  // the text was propagated from another node
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2));
}

TEST(Diagnose, AbortTextIsTheVerdictWithoutOwnFailure) {
  auto job = quiet_job(3);
  for (int r : {0, 1}) {
    job[r].failure = "ranks 2-3 (host b, pids 7, 8) never submitted 'loss' (HORO_TIMEOUT is 8 s)";
    job[r].is_aborted = true;
  }
  EXPECT_EQ(verdict_of(job).kind, Kind::kFailed);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2, 3));
  EXPECT_EQ(verdict_of(job).text, job[0].failure);
}

TEST(Diagnose, DeathsAfterTimeoutAreNotTheCause) {
  auto job = quiet_job(4);
  for (int r : {0, 1, 2}) submit(job[r], "MPI_Finalize", 9, "finalize");
  for (int r : {0, 1}) {
    job[r].failure =
        "rank 3 (host b, pid 4703) is stopped (SIGSTOP, or a debugger) (HORO_TIMEOUT is 4 s)";
    job[r].is_aborted = true;
    job[r].taken = kNow - kSecond;
  }
  // The launcher killed both. Rank 3 sent its last heartbeat before it was stopped.
  for (int r : {2, 3}) job[r].liveness = Liveness::kDead;
  job[3].last_sign_of_life = kNow - 10 * kSecond;
  EXPECT_EQ(verdict_of(job).kind, Kind::kFailed);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(3));
  EXPECT_EQ(verdict_of(job).text, job[0].failure);
  job[3].ending = "was killed by signal 9 (Killed)";
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
}

TEST(Diagnose, DeathNamedByAbortTextIsTheCause) {
  auto job = quiet_job(3);
  job[0].failure = "rank 1 (host a, pid 4701) is dead";
  job[0].is_aborted = true;
  job[0].taken = kNow - kSecond;
  for (int r : {1, 2}) job[r].liveness = Liveness::kDead;
  job[1].last_sign_of_life = kNow - 2 * kSecond;
  EXPECT_EQ(verdict_of(job).kind, Kind::kDead);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
}

TEST(Diagnose, DeathAfterFailureIsNotTheCause) {
  auto job = quiet_job(3);
  job[1].failure = "out of memory";
  job[1].taken = kNow - 3 * kSecond;
  job[2].liveness = Liveness::kDead;
  job[2].last_sign_of_life = kNow - 2 * kSecond;
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
  job[2].last_sign_of_life = kNow - 4 * kSecond;
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2));
}

TEST(Diagnose, UsesLaunchersReportOfDeadRank) {
  auto job = quiet_job(4);
  for (int r : {2, 3}) job[r].liveness = Liveness::kDead;
  job[2].last_sign_of_life = kNow - 3 * kSecond;
  job[2].ending = "was killed by signal 9 (Killed)";
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2)) << "the launcher killed the other one later";
  EXPECT_THAT(
      verdict_of(job).text,
      testing::StartsWith("rank 2 (host b, pid 4702) was killed by signal 9 (Killed); it "));
}

TEST(Diagnose, RankNamedByLauncherIsTheCauseThoughItWaited) {
  auto job = quiet_job(4);
  for (int r : {2, 3}) submit(job[r], "step", 1);
  for (int r : {0, 2}) {
    job[r].liveness = Liveness::kDead;
    job[r].last_sign_of_life = kNow - kSecond / 10;
  }
  job[2].ending = "exited with code 3";
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(2)) << "the launcher killed rank 0";
  job[0].last_sign_of_life = kNow - 20 * kSecond;
  EXPECT_THAT(verdict_of(job).blamed, testing::Contains(0)) << "long before";
}

TEST(Diagnose, RankNamedByLauncherIsTheCauseWithoutOtherRecords) {
  auto job = quiet_job(2);
  for (auto& rank : job) rank.liveness = Liveness::kDead;
  job[1].ending = "was killed by signal 9 (Killed)";
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
  EXPECT_THAT(verdict_of(job).text, HasSubstr("was killed by signal 9"));
}

TEST(Diagnose, CrashNamedByLauncherCausesSimultaneousDeaths) {
  auto job = quiet_job(3);
  job[1].failure = "rank 1 (host a, pid 4701) crashed: signal 6 (Aborted)";
  job[1].taken = kNow - kSecond / 10;
  job[1].ending = "was killed by signal 6 (Aborted)";
  job[0].liveness = Liveness::kDead;
  job[0].last_sign_of_life = kNow - kSecond / 5;
  EXPECT_EQ(verdict_of(job).kind, Kind::kFailed);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
}

TEST(Diagnose, BlamesDepartedRankForFailureThatNamesIt) {
  auto job = quiet_job(3);
  submit(job[1], "horo.shutdown", 3, "shutdown");
  job[1].liveness = Liveness::kEnded;
  job[2].failure =
      "rank 2 (host b) failed with an exception; its last error: 'loss' cannot complete: rank 1 "
      "(host a) has shut down after 12 operations without submitting it";
  job[1].failure = job[2].failure;
  job[1].is_aborted = true;
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kEnded);
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
  EXPECT_THAT(verdict.text,
              testing::StartsWith("rank 1 (host a, pid 4701) left while others still worked (by "
                                  "Context::shutdown(), or by "));
  EXPECT_THAT(verdict.text, HasSubstr("); rank 2 (host b) failed with an exception; its last "));
}

TEST(Diagnose, BlamesFailedRankThatHadLeftBeforeOthersFailed) {
  auto job = quiet_job(3);
  job[1].failure = "rank 1 (host a) failed with an exception";
  job[1].taken = kNow - kSecond;
  job[2].failure =
      "rank 2 (host b) failed with an exception; its last error: 'barrier.0' cannot complete: rank "
      "1 (host a) has shut down after 0 operations without submitting it";
  job[2].taken = kNow - 2 * kSecond;  // rank 1 had left, and was recorded later
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kFailed);
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
}

TEST(Diagnose, NamesSilentRankAndDuration) {
  auto job = quiet_job(3);
  job[2].liveness = Liveness::kSilent;
  job[2].last_sign_of_life = kNow - 17 * kSecond;
  submit(job[0], "loss", 16);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kSilent);
  EXPECT_THAT(verdict.blamed, ElementsAre(2));
  EXPECT_THAT(verdict.text, HasSubstr("no heartbeat for 17 s"));
  job[1].failure = "x";
  EXPECT_EQ(verdict_of(job).kind, Kind::kFailed) << "a failure takes precedence";
  job[1].failure.clear();
  job[2].pid = 0;
  EXPECT_THAT(verdict_of(job).text, testing::StartsWith("rank 2 (host b) has sent no heartbeat"));
  EXPECT_THAT(verdict_of(job).text, Not(HasSubstr("finished"))) << "nothing is known of it";
}

TEST(Diagnose, BlamesRankThatEndedEarlyIfOthersWait) {
  auto job = quiet_job(3);
  job[1].liveness = Liveness::kEnded;
  submit(job[1], "horo.shutdown", 3, "shutdown");
  EXPECT_EQ(verdict_of(job).kind, Kind::kLate) << "the others may just be about to end";
  for (int r : {0, 2}) submit(job[r], "loss", 2);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kEnded);
  EXPECT_THAT(verdict.blamed, ElementsAre(1));
  EXPECT_THAT(verdict.text,
              HasSubstr("rank 1 (host a, pid 4701) has ended early, without failure and without "
                        "submitting 'loss', for which ranks 0 and 2 have waited 2 s since "));
  EXPECT_THAT(verdict.text, HasSubstr("call join() where ranks have different amounts of data"));
}

TEST(Diagnose, ReportsDifferentCollectives) {
  auto job = quiet_job(4);
  submit(job[0], "metric", 41);
  for (int r : {1, 2, 3}) submit(job[r], "barrier.0", 40, "barrier");
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kDifferentOperations);
  EXPECT_THAT(verdict.blamed, ElementsAre(0)) << "the smaller part";
  EXPECT_THAT(verdict.text,
              HasSubstr("a subset of ranks is in one collective and the rest in another: rank 0 "
                        "(host a, pid 4700) in allreduce 'metric' for 41 s, ranks 1-3 (host a, pid "
                        "4701; host b, pids 4702, 4703) in barrier 'barrier.0' for 40 s; ranks 0-3 "
                        "last finished 'step' 43 s ago; all ranks must"));
}

TEST(Diagnose, PrefersIdleRankToCycle) {
  auto job = quiet_job(4);
  submit(job[0], "metric", 41);
  for (int r : {1, 2}) submit(job[r], "loss", 40);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(3));
}

TEST(Diagnose, BlamesIdleRankBesideRankWithManyOperations) {
  // Rank 1 never marks the last gradient. It has marked all others, like rank 0.
  auto job = quiet_job(2);
  for (const char* name : {"g/a", "g/b"})
    for (int r : {0, 1}) submit(job[r], name, 30, "gradient");
  submit(job[0], "g/c", 30, "gradient");
  EXPECT_EQ(verdict_of(job).kind, Kind::kMissing);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
  EXPECT_THAT(verdict_of(job).text, HasSubstr("never marked 'g/c'"));
}

TEST(Diagnose, BlamesComputingRanksWithDifferentMarks) {
  auto job = quiet_job(3);
  for (const char* name : {"g/a", "g/b"}) submit(job[0], name, 30, "gradient", true);
  submit(job[1], "g/a", 30, "gradient");
  submit(job[2], "g/b", 30, "gradient");
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kMissing);
  EXPECT_THAT(verdict.blamed, ElementsAre(2));
  EXPECT_THAT(verdict.text, HasSubstr("rank 2 (host b, pid 4702) never marked 'g/a'"));
}

TEST(Diagnose, DoesNotBlamePausedRank) {
  auto job = quiet_job(3);
  for (int r : {0, 1}) submit(job[r], "loss", 60);
  job[2].pause = "checkpoint";
  job[2].pause_since = kNow - 70 * kSecond;
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kNone);
  EXPECT_THAT(verdict.blamed, IsEmpty());
  EXPECT_EQ(verdict.text,
            "rank 2 (host b, pid 4702) has been in pause 'checkpoint' for 70 s; ranks 0-1 have "
            "waited 60 s for 'loss'");
  for (int r : {0, 1}) job[r].open[0].submitted = kNow - 9 * kSecond;
  EXPECT_EQ(verdict_of(job).text, "") << "they do not wait for long";
}

TEST(Diagnose, BlamesOtherRankBesidePausedOne) {
  auto job = quiet_job(3);
  submit(job[0], "loss", 60);
  job[2].pause = "checkpoint";
  EXPECT_EQ(verdict_of(job).kind, Kind::kMissing);
  EXPECT_THAT(verdict_of(job).blamed, ElementsAre(1));
}

TEST(Diagnose, ReportsStuckExchangeOfAllRanks) {
  auto job = quiet_job(3);
  for (RankSnapshot& rank : job) submit(rank, "loss", 60, "allreduce", true);
  const Verdict verdict = verdict_of(job);
  EXPECT_EQ(verdict.kind, Kind::kLate);
  EXPECT_EQ(verdict.text,
            "ranks 0-2 (host a, pids 4700, 4701; host b, pid 4702) have been in allreduce 'loss' "
            "for 60 s and every rank has submitted it: the exchange makes no progress (the "
            "network, or a rank without CPU time); ranks 0-2 last finished 'step' 43 s ago");
  job[1].open.clear();
  EXPECT_THAT(verdict_of(job).text, HasSubstr("rank 1 has finished it"));
  EXPECT_THAT(verdict_of(job).text, Not(HasSubstr("every rank")));
}

TEST(Diagnose, SummarizesManyGradients) {
  auto job = quiet_job(2);
  for (int i = 0; i < 300; ++i) submit(job[0], "g/" + std::to_string(i), 30, "gradient");
  EXPECT_THAT(verdict_of(job).text,
              HasSubstr("never marked 'g/0' and 299 others; rank 0 has waited"));
}

TEST(Diagnose, IgnoresOrderOfRanks) {
  auto job = quiet_job(4);
  for (int r : {0, 1, 2}) submit(job[r], "x", 41);
  const std::string text = verdict_of(job).text;
  std::reverse(job.begin(), job.end());
  EXPECT_EQ(verdict_of(job).text, text);
}

}  // namespace
}  // namespace horo::observe

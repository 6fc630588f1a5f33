#include "launcher/job/job_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <tuple>

#include "horo/base/wait.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

using observe::FlightRecorder;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class JobVerdictTest : public testing::Test {
 protected:
  std::unique_ptr<FlightRecorder> record(int rank, std::uint64_t job) const {
    return std::make_unique<FlightRecorder>(
        observe::FlightJob{.id = job,
                           .rank = rank,
                           .size = 2,
                           .host = "h",
                           .path = directory_.file(observe::flight_file_name(rank))});
  }
  /// Writes the record of a process that is killed after `last`.
  void record_and_die(int rank, const std::function<void(FlightRecorder&)>& last,
                      const AbortSignal* abort = nullptr) const {
    const pid_t child = fork();
    if (child == 0) {
      FlightRecorder recorder(
          observe::FlightJob{.id = 7,
                             .rank = rank,
                             .size = 4,
                             .host = "h",
                             .path = directory_.file(observe::flight_file_name(rank)),
                             .abort = abort});
      last(recorder);
      raise(SIGKILL);
    }
    waitpid(child, nullptr, 0);
  }
  JobVerdict verdict() const { return JobVerdict(directory_.path().string()); }

  observe::TemporaryDirectory directory_;
  const JobResult exit_of_rank_0_{.wait_status = 256,
                                  .failure = RankFailure{0, "", "exited with code 1"}};
};

TEST_F(JobVerdictTest, PrefersRecordedFailureToReport) {
  const JobVerdict verdict = this->verdict();
  const auto first = record(0, 7);
  const auto second = record(1, 7);
  second->fail("out of memory");
  const std::string text = verdict.text(exit_of_rank_0_, 1);
  EXPECT_THAT(text, StartsWith("hororun: rank 1 (host h, pid "));
  EXPECT_THAT(text, HasSubstr("failed: out of memory"));
  EXPECT_THAT(text, Not(HasSubstr("rank 0 ")));
  EXPECT_THAT(text, HasSubstr("\nhororun: more: hororun doctor "));
}

TEST_F(JobVerdictTest, DoesNotRepeatPrintedDetails) {
  const JobVerdict verdict = this->verdict();
  const std::string reason = "ranks 1-2 (host h, pid 7; host i, pid 8) never submitted 'x'";
  const std::string text = reason + "; rank 0 has waited 4 s for it (HORO_TIMEOUT is 4s)";
  AbortSignal abort;
  abort.raise(text);
  record_and_die(
      0, [&](FlightRecorder& recorder) { recorder.fail(text); }, &abort);
  JobResult result = exit_of_rank_0_;
  EXPECT_THAT(verdict.text(result, 1), StartsWith("hororun: " + text + "\n"));
  result.printed = "train: " + text + "\n";
  EXPECT_THAT(verdict.text(result, 1),
              StartsWith("hororun: " + reason + " (HORO_TIMEOUT is 4s); details are above\n"));
}

TEST_F(JobVerdictTest, UsesReportIfRecordsHaveNoReason) {
  const JobVerdict verdict = this->verdict();
  for (int rank : {0, 1}) record(rank, 7)->end();
  EXPECT_THAT(
      verdict.text(exit_of_rank_0_, 1),
      testing::ContainsRegex("^hororun: rank 0 .host h, pid [0-9]+. exited with code 1; its "
                             "record shows no failure\n"));
}

TEST_F(JobVerdictTest, UsesReportForRankWithoutRecord) {
  const JobVerdict verdict = this->verdict();
  const auto first = record(0, 7);
  const JobResult result{.failure = RankFailure{1, "b", "was killed by signal 9 (Killed)"}};
  EXPECT_THAT(verdict.text(result, 137),
              StartsWith("hororun: rank 1 (host b) was killed by signal 9 (Killed)"));
}

TEST_F(JobVerdictTest, QuotesRankWithoutRecord) {
  const JobVerdict verdict = this->verdict();
  const auto first = record(0, 7);
  JobResult result{.failure = RankFailure{1, "b", "exited with code 1", 1, "train: disk full"}};
  EXPECT_THAT(verdict.text(result, 1),
              StartsWith("hororun: rank 1 (host b) exited with code 1; its last line on standard "
                         "error is 'train: disk full'"));
  result.failure->abort_reason = "ranks 0 and 2 have sent no heartbeat for 10 s";
  for (const JobVerdict& each : {verdict, JobVerdict("off")})
    EXPECT_THAT(each.text(result, 1),
                StartsWith("hororun: ranks 0 and 2 have sent no heartbeat for 10 s\n"));
}

TEST_F(JobVerdictTest, ExitCodeIsNotThatOfBrokenPipe) {
  const JobVerdict verdict = this->verdict();
  record_and_die(0, [](FlightRecorder&) {});
  JobResult result{.wait_status = (128 + SIGPIPE) << 8,
                   .rank_ends = {{.rank = 1, .wait_status = SIGPIPE}},
                   .failure = RankFailure{1, "h", "was killed by signal 13", 128 + SIGPIPE}};
  EXPECT_EQ(verdict.exit_code(result), 128 + SIGPIPE);
  result.rank_ends = {{.rank = 0, .host = "h"}, {.rank = 1, .wait_status = SIGPIPE}};
  EXPECT_EQ(verdict.exit_code(result), 1);
  result.rank_ends.push_back({.rank = 2, .wait_status = 7 << 8});
  result.failure = first_failure(result.rank_ends, result.failure);
  EXPECT_EQ(verdict.exit_code(result), 7);
}

TEST_F(JobVerdictTest, IgnoresOlderJob) {
  for (int rank : {0, 1}) record(rank, 7)->fail("of another job");
  const JobVerdict verdict = this->verdict();
  EXPECT_EQ(verdict.text(exit_of_rank_0_, 1),
            "hororun: rank 0 exited with code 1; no rank left a flight record, so look at its "
            "output above\n");
  record(1, 8)->fail("of this job");
  EXPECT_THAT(verdict.text(exit_of_rank_0_, 1), HasSubstr("failed: of this job"));
}

TEST_F(JobVerdictTest, CrashOfMpirunDoesNotHideTimeout) {
  const JobVerdict verdict = this->verdict();
  AbortSignal abort;
  abort.raise("rank 3 (host h, pid 7) is stopped (SIGSTOP, or a debugger) (HORO_TIMEOUT is 4 s)");
  const auto nothing = [](FlightRecorder&) {};
  record_and_die(3, nothing);
  for (int rank : {0, 1})
    record_and_die(
        rank, [](FlightRecorder& recorder) { recorder.fail("of the abort"); }, &abort);
  record_and_die(2, nothing);
  JobResult result{.wait_status = SIGSEGV,
                   .failure = RankFailure{1, "", "exited with code 75", 75}};
  EXPECT_EQ(verdict.exit_code(result), 75);
  const std::string text = verdict.text(result, 75);
  EXPECT_THAT(text, StartsWith("hororun: rank 3 (host h, pid 7) is stopped"));
  EXPECT_THAT(text, testing::EndsWith(
                        "hororun: mpirun itself was killed by signal 11 (Segmentation fault)\n"));
  result.failure.reset();
  EXPECT_EQ(verdict.exit_code(result), 75) << "from the records";
}

TEST_F(JobVerdictTest, ExitCodeOfFirstFailureSurvivesCrashOfMpirun) {
  const JobVerdict verdict = this->verdict();
  const JobResult crash{.wait_status = SIGSEGV};
  EXPECT_EQ(verdict.exit_code(crash), 128 + SIGSEGV);
  record_and_die(0, [](FlightRecorder& recorder) { recorder.fail("out of memory"); });
  EXPECT_EQ(verdict.exit_code(crash), 1);
  EXPECT_EQ(verdict.exit_code(
                {.wait_status = SIGSEGV, .stop = observe::StopRequest{.signal = SIGINT, .at = 1}}),
            128 + SIGINT);
  record_and_die(0, [](FlightRecorder& recorder) {
    recorder.layout().header->status.signal = SIGABRT;
    recorder.layout().header->status.signal_at = observe::flight_clock();
    recorder.fail("rank 0 (host h, pid 1) crashed: signal 6 (Aborted)");  // as CrashRecorder does
  });
  EXPECT_EQ(verdict.exit_code(crash), 128 + SIGABRT);
}

TEST_F(JobVerdictTest, DistinguishesExitAfterShutdown) {
  const JobVerdict verdict = this->verdict();
  for (const auto& [last, set, is_done] : {std::tuple("step", "", false),
                                           {"horo.shutdown", "{0, 1}", false},
                                           {"horo.shutdown", "", true}}) {
    record_and_die(0, [&](FlightRecorder& recorder) {
      observe::FlightRecord operation{};
      operation.name = recorder.name(last);
      operation.process_set = recorder.name(set);
      operation.submitted = observe::flight_clock();
      recorder.open(operation).finish(observe::flight_clock());
    });
    const JobResult result{.wait_status = 3 << 8,
                           .failure = RankFailure{0, "", "exited with code 3", 3}};
    EXPECT_THAT(verdict.text(result, 3),
                HasSubstr(is_done ? ") exited with code 3 after Context::shutdown(), before"
                                  : ") exited with code 3 without calling Context::shutdown()"));
  }
}

TEST_F(JobVerdictTest, ShowsLastLineWithoutRecord) {
  JobResult result = exit_of_rank_0_;
  result.failure->last_line = "train: unknown option --foo";
  EXPECT_EQ(
      JobVerdict("off").text(result, 1),
      "hororun: rank 0 exited with code 1; its last line on standard error is 'train: unknown "
      "option --foo'; no rank left a flight record\n");
  const JobVerdict verdict = this->verdict();
  record(0, 7)->fail("out of memory");
  EXPECT_THAT(verdict.text(result, 1), Not(HasSubstr("standard error")));
}

TEST_F(JobVerdictTest, ShowsLastLineForCaughtException) {
  JobResult result = exit_of_rank_0_;
  result.failure->last_line = "train: disk full";
  const JobVerdict verdict = this->verdict();
  record(0, 7)->fail("rank 0 (host h, pid 1) failed with an exception");
  EXPECT_THAT(verdict.text(result, 1), HasSubstr("'train: disk full'"));
  result.failure->rank = 1;
  EXPECT_THAT(verdict.text(result, 1), Not(HasSubstr("disk full")));
}

TEST_F(JobVerdictTest, EarlyExitWithCode0IsTheCause) {
  const JobVerdict verdict = this->verdict();
  const auto nothing = [](FlightRecorder&) {};
  record_and_die(1, nothing);
  record_and_die(2, [](FlightRecorder& recorder) { recorder.fail("rank 1 (host h) is dead"); });
  const JobResult result{
      .rank_ends = {{.rank = 0}, {.rank = 1, .host = "h"}, {.rank = 2, .wait_status = 256}},
      .failure = RankFailure{2, "h", "exited with code 1"}};
  EXPECT_THAT(verdict.text(result, 1),
              testing::ContainsRegex("^hororun: rank 1 .host h, pid [0-9]+. exited with code 0 "
                                     "without calling Context::shutdown"));
}

TEST_F(JobVerdictTest, TimeoutInInitIsReasonOfWaitingRank) {
  JobResult result{.failure = RankFailure{3, "b", "exited with code 75", 75}};
  result.failure->last_line =
      "11:03:13.467 error [horo] rank 3 (host b, pid 8100) has waited 13.03s in horo::init() for "
      "ranks of other hosts, which have not called it (HORO_TIMEOUT is 8 s): the process of rank 3 "
      "ends now, with exit code 75";
  EXPECT_EQ(JobVerdict("off").text(result, 75),
            "hororun: rank 3 (host b, pid 8100) has waited 13.03s in horo::init() for ranks of "
            "other hosts, which have not called it (HORO_TIMEOUT is 8 s)\n");
}

TEST_F(JobVerdictTest, TimeoutWithoutRecordIsTheReason) {
  const JobVerdict verdict = this->verdict();
  const auto record_of_rank_0 = record(0, 7);
  JobResult result{.failure = RankFailure{2, "b", "exited with code 75", 75}};
  result.failure->last_line =
      "11:10:51.561 error [rank 2] rank 0 (host h, pid 1) never called 'MPI_Finalize'; rank 2 has "
      "waited 8.1 s for it (HORO_TIMEOUT is 8 s); this rank is stuck in finalize 'MPI_Finalize'; "
      "its process ends now, with exit code 75";
  EXPECT_THAT(verdict.text(result, 75),
              StartsWith("hororun: rank 0 (host h, pid 1) never called 'MPI_Finalize'; rank 2 has "
                         "waited 8.1 s for it (HORO_TIMEOUT is 8 s)\n"));
}

TEST_F(JobVerdictTest, LostHostNamesOnlyItsRanks) {
  const JobVerdict verdict = this->verdict();
  const auto waits = record(0, 7);
  const auto is_late = record(1, 7);
  observe::FlightRecord operation{};
  operation.name = waits->name("loss");
  operation.kind = static_cast<std::uint16_t>(waits->name("allreduce"));
  operation.submitted = observe::flight_clock() - 60'000'000'000;
  const observe::OpenFlight open = waits->open(operation);
  EXPECT_THAT(verdict.text({.lost_host = "other"}, 1),
              testing::MatchesRegex("hororun: mpirun has lost the connection to host other: the "
                                    "host is gone, or the network to it is cut\nhororun: more.*"));
  EXPECT_THAT(verdict.text({.lost_host = "h"}, 1), HasSubstr("is cut; rank 1 (host h, pid "));
}

TEST_F(JobVerdictTest, EscapesControlCharactersOfAnySource) {
  const JobVerdict without_records("off");
  EXPECT_EQ(
      without_records.text({.failure = RankFailure{1, "b\x1b[2J", "exited \xff"}}, 7),
      "hororun: rank 1 (host b\\x1b[2J) exited \\xff; no rank left a flight record, so look at "
      "its output above\n");
  EXPECT_THAT(without_records.text({.launch_error = "ssh: \xc2\x9b"
                                                    "31m"},
                                   1),
              HasSubstr("ssh: \\xc2\\x9b31m"));
  const JobVerdict verdict = this->verdict();
  const auto rank = record(0, 7);
  EXPECT_THAT(verdict.text({.lost_host = "o\x07ther"}, 1), HasSubstr("host o\\x07ther: "));
}

TEST_F(JobVerdictTest, NamesExitCodeWithoutRecordOrReport) {
  EXPECT_EQ(JobVerdict("off").text({}, 137),
            "hororun: the job failed with exit code 137 (signal 9, Killed); mpirun did not name a "
            "rank\n");
  EXPECT_EQ(
      JobVerdict("off").text({.rank_ends = {{.rank = 1, .host = "b"}}}, 1),
      "hororun: rank 1 (host b) exited with code 0 before other ranks, and the job ended with "
      "exit code 1\n");
}

}  // namespace
}  // namespace horo

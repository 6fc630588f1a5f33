#include "launcher/supervisor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "horo/base/error.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

constexpr Patience kShort{.before_stop = 300ms, .before_term = 300ms, .before_kill = 300ms};

/// Runs a shell script in place of mpirun. The script can signal this process with "kill -s NAME
/// $PPID".
JobResult run(const std::string& script) {
  SignalInbox inbox(supervised_signals());
  const ChildProcess child({"sh", "-c", script}, {{"HORO_TEST_VALUE", "a b"}},
                           inbox.previous_mask());
  OutputQueue errors(STDERR_FILENO);
  const JobResult result = supervise(child, inbox, errors, kShort);
  write_out(errors, inbox);
  return result;
}

TEST(Supervisor, ForwardsExitCode) {
  const JobResult result = run("exit 7");
  EXPECT_EQ(shell_exit_code(result.wait_status), 7);
  EXPECT_FALSE(result.stop);
  EXPECT_FALSE(result.failure);
}

TEST(Supervisor, EncodesSignalLikeShells) {
  EXPECT_EQ(shell_exit_code(run("kill -9 $$").wait_status), 137);
}

TEST(Supervisor, SetsEnvironment) {
  EXPECT_EQ(shell_exit_code(run("test \"$HORO_TEST_VALUE\" = 'a b'").wait_status), 0);
}

TEST(Supervisor, BrokenPipeDoesNotKillMpirun) {
  EXPECT_EQ(shell_exit_code(run("kill -s PIPE $$; exit 3").wait_status), 3);
}

TEST(Supervisor, ReadsReportOfFailedRank) {
  const JobResult result =
      run("echo 'mpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 "
          "(Killed).' >&2; exit 137");
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(describe(*result.failure), "rank 1 (host b) was killed by signal 9 (Killed)");
}

TEST(Supervisor, FirstFailedEndIsTheFailure) {
  const RankFailure of_mpirun{5, "b", "was killed by signal 9 (Killed)", 137};
  EXPECT_EQ(first_failure({}, of_mpirun)->rank, 5);
  EXPECT_FALSE(first_failure({{.rank = 0}}, std::nullopt));
  const auto failure =
      first_failure({{.rank = 0},
                     {.rank = 3, .wait_status = SIGPIPE},  // mpirun has closed its output
                     {.rank = 3, .wait_status = SIGPIPE},  // mpirun has closed its output
                     {.rank = 2, .host = "a", .wait_status = SIGSEGV, .last_line = "x"},
                     {.rank = 1, .wait_status = 1 << 8}},
                    of_mpirun);
  ASSERT_TRUE(failure);
  EXPECT_EQ(describe(*failure), "rank 2 (host a) was killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(failure->exit_code, 139);
  EXPECT_EQ(failure->last_line, "x");
}

constexpr const char* kReportOfRank1 =
    "echo '  Process name: [[10768,1],1]' >&2; echo '  Exit code:    75' >&2; ";

TEST(Supervisor, UsesReportedExitCodeIfMpirunCrashes) {
  const JobResult result = run(std::string(kReportOfRank1) + "kill -SEGV $$");
  EXPECT_EQ(crash_of_mpirun(result), SIGSEGV);
  EXPECT_EQ(exit_code_of(result), 75);
  EXPECT_EQ(exit_code_of(run("kill -SEGV $$")), 128 + SIGSEGV);
}

TEST(Supervisor, KeepsReportsFromBeforeTheStop) {
  constexpr const char* kLostHost = "echo '  Remote daemon: [[4514,0],3] on node b' >&2; ";
  constexpr const char* kScript =
      "consequence() {{ {} exit 1; }}; trap consequence INT; {} kill -s INT $PPID; "
      "while :; do sleep 0.01; done";
  const JobResult lost = run(fmt::format(kScript, kReportOfRank1, kLostHost));
  EXPECT_EQ(lost.lost_host, "b");
  EXPECT_FALSE(lost.failure);
  const JobResult failed = run(fmt::format(kScript, kLostHost, kReportOfRank1));
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->rank, 1);
  EXPECT_FALSE(failed.lost_host);
}

TEST(Supervisor, ForwardsInterrupt) {
  const JobResult result =
      run("trap 'exit 5' INT; kill -s INT $PPID; while :; do sleep 0.01; done");
  ASSERT_TRUE(result.stop);
  EXPECT_EQ(result.stop->signal, SIGINT);
  EXPECT_EQ(shell_exit_code(result.wait_status), 5);
}

TEST(Supervisor, LetsRanksEndInOrderAfterSigterm) {
  const JobResult result =
      run("trap 'exit 0' URG; kill -s TERM $PPID; while :; do sleep 0.01; done");
  ASSERT_TRUE(result.stop);
  EXPECT_EQ(result.stop->signal, SIGTERM);
  EXPECT_EQ(exit_code_of(result), 0);
  EXPECT_EQ(
      exit_code_of(run("trap 'exit 3' URG; kill -s TERM $PPID; while :; do sleep 0.01; done")),
      128 + SIGTERM);
}

TEST(Supervisor, SecondSigtermEndsJobAtOnce) {
  const JobResult result =
      run("trap 'kill -s TERM $PPID' URG; trap 'exit 6' TERM; kill -s TERM $PPID; "
          "while :; do sleep 0.01; done");
  EXPECT_EQ(shell_exit_code(result.wait_status), 6);
}

TEST(Supervisor, TerminatesJobThatIgnoresRequestToEnd) {
  const JobResult result =
      run("trap 'exit 6' TERM; kill -s TERM $PPID; while :; do sleep 0.01; done");
  EXPECT_EQ(shell_exit_code(result.wait_status), 6);
}

TEST(Supervisor, ForwardsUserSignals) {
  const JobResult result =
      run("trap 'exit 6' USR1; kill -s USR1 $PPID; while :; do sleep 0.01; done");
  EXPECT_FALSE(result.stop);
  EXPECT_EQ(shell_exit_code(result.wait_status), 6);
}

TEST(Supervisor, TerminatesJobThatIgnoresInterrupt) {
  const JobResult result = run("trap '' INT; kill -s INT $PPID; while :; do sleep 0.01; done");
  EXPECT_EQ(shell_exit_code(result.wait_status), 128 + SIGTERM);
}

TEST(Supervisor, KillsProcessThatIgnoresSignals) {
  const JobResult result =
      run("trap '' INT TERM HUP; kill -s HUP $PPID; while :; do sleep 0.01; done");
  ASSERT_TRUE(result.stop);
  EXPECT_EQ(result.stop->signal, SIGHUP);
  EXPECT_EQ(shell_exit_code(result.wait_status), 128 + SIGKILL);
}

TEST(Supervisor, LeavesNoOrphanOfFailedJob) {
  adopt_orphans();
  // The shell leaves a process in its own session, as mpirun does when it is killed.
  const JobResult result = run("setsid sleep 1000 & echo started; kill -9 $$");
  EXPECT_EQ(shell_exit_code(result.wait_status), 137);
  EXPECT_EQ(wait(nullptr), -1);  // no child is left
}

TEST(Supervisor, WaitsForCleaner) {
  adopt_orphans();
  const observe::TemporaryDirectory directory;
  const std::string path = directory.file("cleaned");
  const JobResult result =
      run(fmt::format("setsid sh -c 'printf hororun-clean > /proc/$$/comm; sleep 0.3; touch {}' & "
                      "until grep -q hororun-clean /proc/$!/comm; do sleep 0.01; done; kill -9 $$",
                      path));
  EXPECT_EQ(shell_exit_code(result.wait_status), 137);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(wait(nullptr), -1);  // no child is left
}

// A frozen host has this state: its cleaner process is stopped and continues later.
TEST(Supervisor, SkipsStoppedCleaner) {
  adopt_orphans();
  const JobResult result =
      run("setsid sh -c 'printf hororun-clean > /proc/$$/comm; kill -s STOP $$' & "
          "until grep -q '^State:.T' /proc/$!/status; do sleep 0.01; done; kill -9 $$");
  EXPECT_EQ(shell_exit_code(result.wait_status), 137);
  int status = 0;
  const pid_t cleaner = waitpid(-1, &status, WUNTRACED | WNOHANG);
  ASSERT_GT(cleaner, 0);
  EXPECT_TRUE(WIFSTOPPED(status));
  kill(cleaner, SIGKILL);
  EXPECT_EQ(waitpid(cleaner, &status, 0), cleaner);
}

TEST(ChildProcess, ReportsWhyItCannotStart) {
  sigset_t mask;
  sigemptyset(&mask);
  try {
    ChildProcess child({"/no/such/program"}, {}, mask);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("cannot start /no/such/program: No such file"), 0u)
        << error.what();
  }
}

}  // namespace
}  // namespace horo

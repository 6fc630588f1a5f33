#include "launcher/job/job_monitor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "horo/base/system/file_descriptor.h"
#include "horo/base/system/threads.h"
#include "launcher/rank/rank_cleaner.h"
#include "launcher/supervisor.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr Patience kShort{.before_term = 300ms, .before_kill = 300ms};
constexpr MonitorTimes kFast{
    .period = 50ms, .search_period = 10ms, .search_phase = 500ms, .judgements = 4};

/// Returns shell text that starts `command` in the background as a rank of a job of `size` ranks.
std::string start_rank(int rank, int size, int nodes, const std::string& command) {
  return fmt::format(
      "env OMPI_COMM_WORLD_RANK={} OMPI_COMM_WORLD_SIZE={} OMPI_MCA_orte_num_nodes={} "
      "PMIX_NAMESPACE=77 {} & ",
      rank, size, nodes, command);
}

/// Runs a shell script in place of mpirun and kills it as the last resort. The script's output goes
/// to `output`.
JobResult run(const std::string& script, int output = STDERR_FILENO) {
  adopt_orphans();  // as run_command() does
  SignalInbox inbox(supervised_signals());
  const ChildProcess child({"timeout", "-s", "KILL", "20", "bash", "-c", script}, {},
                           inbox.previous_mask());
  OutputQueue errors(output);
  const JobResult result = supervise(child, inbox, errors, kShort, kFast);
  write_out(errors, inbox, 0ms);
  return result;
}

// Waits without a child process, which would be counted as a rank.
const std::string kWait = "exec 3<> <(:); while :; do read -r -t 0.05 -u 3; done";
const std::string kHang = "trap '' TERM INT; " + kWait;

TEST(JobMonitor, EndsMpirunWhenNoRankRuns) {
  const JobResult result =
      run(start_rank(0, 2, 1, "sleep 0.3") + start_rank(1, 2, 1, "sleep 0.1") + kHang);
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kNoRankRuns);
  EXPECT_EQ(exit_code_of(result), kForcedEndExitCode);
  EXPECT_EQ(wait(nullptr), -1);  // no child is left
}

// Returns shell text that reports the ends of `ranks`, the first one with `status`.
std::string report_ends(const fs::path& file, std::vector<int> ranks, int size, int status) {
  std::ofstream report(file);
  for (const int rank : ranks)
    report << encode(
        {.rank = rank, .size = size, .host = "b", .wait_status = std::exchange(status, 0)});
  return fmt::format("cat '{}' >&2; ", file.string());
}

TEST(JobMonitor, EndsMpirunWhenRanksOfAllHostsHaveReported) {
  const observe::TemporaryDirectory directory;
  const std::string report = report_ends(directory.path() / "report", {1, 0}, 2, SIGKILL);
  // Rank 0 runs on this host, or no rank does.
  for (const std::string& local : {start_rank(0, 2, 2, "sleep 0.1"), std::string()}) {
    const JobResult result = run(local + report + kHang);
    ASSERT_TRUE(result.forced_end);
    EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kNoRankRuns);
    EXPECT_EQ(exit_code_of(result), 137);
  }
}

TEST(JobMonitor, WaitsForRankOfOtherHostWithoutReport) {
  const observe::TemporaryDirectory directory;
  const std::string report = report_ends(directory.path() / "report", {0, 2, 2}, 3, SIGKILL);
  const JobResult result = run(start_rank(0, 3, 2, "sleep 0.1") + report + "sleep 1");
  EXPECT_FALSE(result.forced_end);
}

// A rank of another host may have started a process that outlives it.
TEST(JobMonitor, WaitsForMpirunAfterRanksOfOtherHostsHaveSucceeded) {
  const observe::TemporaryDirectory directory;
  const std::string report = report_ends(directory.path() / "report", {0, 1}, 2, 0);
  const JobResult result = run(start_rank(0, 2, 2, "sleep 0.1") + report + "sleep 1");
  EXPECT_FALSE(result.forced_end);
}

TEST(JobMonitor, EndsMpirunThatCannotAbortJobOfOtherHosts) {
  const JobResult result = run(
      "echo 'a non-zero exit code. Per user-direction, the job has been aborted.' >&2; " + kHang);
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kAbortStuck);
}

TEST(JobMonitor, EndsMpirunWithBlockedOutput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]);
  const FileDescriptor writer(ends[1]);
  // The output exceeds the capacity of a pipe.
  const JobResult result = run(
      start_rank(0, 1, 1, "sleep 0.2") + "seq 100000 | head -c 200000 >&2; " + kHang, writer.get());
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kNoRankRuns);
}

TEST(JobMonitor, KeepsExitCodeOfFailedRank) {
  const JobResult result =
      run(start_rank(0, 1, 1, "sleep 0.2") +
          "echo 'mpirun noticed that process rank 0 with PID 0 on node b exited on signal 9 "
          "(Killed).' >&2; " +
          kHang);
  ASSERT_TRUE(result.forced_end);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(exit_code_of(result), 137);
}

TEST(JobMonitor, IgnoresReportsDuringForcedEnd) {
  const JobResult result =
      run(start_rank(0, 1, 1, "sleep 0.2") +
          "trap 'echo \"  Remote daemon: [[4514,0],3] on node b\" >&2; exit 1' TERM; " + kWait);
  ASSERT_TRUE(result.forced_end);
  EXPECT_FALSE(result.lost_host);
}

TEST(JobMonitor, WaitsForInvisibleRanks) {
  // The other rank is on another host.
  const JobResult result = run(start_rank(0, 2, 2, "sleep 0.1") + "sleep 1");
  EXPECT_FALSE(result.forced_end);
  EXPECT_EQ(exit_code_of(result), 0);
}

TEST(JobMonitor, EndsMpirunThatCannotAbortJob) {
  // One of two hosts is unreachable, and a rank on this host is stopped.
  const JobResult result = run(
      start_rank(0, 2, 2, "sh -c 'kill -STOP $$'") +
      "echo 'a non-zero exit code. Per user-direction, the job has been aborted.' >&2; " + kHang);
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kAbortStuck);
  EXPECT_EQ(exit_code_of(result), kForcedEndExitCode);
  EXPECT_EQ(wait(nullptr), -1);  // no child is left
}

TEST(JobMonitor, WaitsForFirstRank) { EXPECT_EQ(exit_code_of(run("sleep 1")), 0); }

TEST(JobMonitor, WaitsForLaterProcessOfRank) {
  const JobResult result = run(start_rank(0, 1, 1, "sh -c 'sleep 1 & exit 0'") + "sleep 1");
  EXPECT_FALSE(result.forced_end);
}

TEST(JobMonitor, IgnoresCleaners) {
  const observe::TemporaryDirectory directory;
  const fs::path cleaner = directory.path() / kRankCleanerName;
  fs::copy_file("/bin/bash", cleaner);
  // The cleaner runs until mpirun has ended.
  const std::string clean = fmt::format(
      "'{}' -c 'exec 3<> <(:); while kill -0 $PPID; do read -r -t 0.05 -u 3; done' 2>/dev/null",
      cleaner.string());
  const JobResult result =
      run(start_rank(0, 1, 1, "sleep 0.3") + start_rank(0, 1, 1, clean) + kHang);
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kNoRankRuns);
}

TEST(JobMonitor, NamesRankMissingInInit) {
  // The process has one thread, with the name of the thread that a rank has in init().
  const observe::TemporaryDirectory directory;
  const fs::path waiting = directory.path() / kInitThreadName;
  fs::copy_file("/bin/sleep", waiting);
  const std::string in_init = fmt::format("'{}' 30", waiting.string());
  const JobResult result =
      run(start_rank(0, 3, 1, "sh -c \"" + in_init + "; true\"") + start_rank(1, 3, 1, in_init) +
          start_rank(2, 3, 1, "sleep 0.3") + kHang);
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kRankMissing);
  EXPECT_EQ(result.forced_end->text.find("rank 2 (pid "), 0u) << result.forced_end->text;
  EXPECT_NE(result.forced_end->text.find("horo::init(), in which ranks 0-1 wait"),
            std::string::npos)
      << result.forced_end->text;
  EXPECT_EQ(exit_code_of(result), kForcedEndExitCode);
}

TEST(JobMonitor, NamesRankWithReportedEnd) {
  const observe::TemporaryDirectory directory;
  const fs::path waiting = directory.path() / kInitThreadName;
  fs::copy_file("/bin/sleep", waiting);
  const fs::path report = directory.path() / "report";
  std::ofstream(report) << encode({.rank = 1, .pid = 4711, .host = "h"});
  const JobResult result =
      run(fmt::format("cat '{}' >&2; ", report.string()) +
          start_rank(0, 2, 1, fmt::format("'{}' 30", waiting.string())) + kHang);
  ASSERT_TRUE(result.forced_end);
  EXPECT_EQ(result.forced_end->cause, ForcedEnd::Cause::kRankMissing);
  EXPECT_EQ(result.forced_end->text.find("rank 1 (pid 4711) exited without completing"), 0u)
      << result.forced_end->text;
}

TEST(JobMonitor, IgnoresJobWithoutRankInInit) {
  const JobResult result =
      run(start_rank(0, 2, 1, "sleep 1.2") + start_rank(1, 2, 1, "sleep 0.1") + "wait");
  EXPECT_FALSE(result.forced_end);
  EXPECT_EQ(exit_code_of(result), 0);
}

}  // namespace
}  // namespace horo

#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "horo/base/system/file_descriptor.h"

namespace horo {

/// The ranks of one job on this host that wait in init(). Each rank locks a range of bytes of
/// /dev/null. The other ranks find the lock before MPI connects them, even from another network
/// namespace. The kernel removes the lock when the process ends for any reason. Used by one thread.
class InitRoster {
 public:
  struct Waiting {
    int rank = 0;
    pid_t pid = 0;
    bool is_stopped = false;
    bool has_left = false;  ///< set by InitNotice if the rank has left horo::init()
  };

  /// Adds this rank. `job` must be equal on all ranks of a job on this host and differ from that of
  /// other jobs on the host. If the system refuses the lock, the other ranks do not find this rank.
  InitRoster(std::string_view job, int rank, int size);

  /// Returns the ranks that wait, including this rank, in ascending order. Does not block.
  std::vector<Waiting> waiting() const;
  /// Returns whether this rank reports for the host. The first rank that calls this function is the
  /// reporter until its InitRoster is destroyed. While the process of the reporter is stopped, one
  /// other rank reports. Does not block.
  bool is_reporter();

 private:
  // A role is a range of bytes, which at most one process at a time locks. Role r below size_
  // belongs to rank r. Roles size_ and size_ + 1 belong to the reporter and its deputy.
  std::int64_t range_of_role(int role) const;
  FileDescriptor hold(int role) const;
  std::optional<Waiting> find(int role) const;

  const std::uint64_t job_;
  const int rank_, size_;
  FileDescriptor own_, reporter_, deputy_;
};

/// The data about a job that a rank has before MPI connects it to the other ranks.
struct StartingJob {
  std::string host;
  std::string id;      ///< see InitRoster; empty if the launcher has not set it
  int rank = -1;       ///< -1 if unknown
  int size = 0;        ///< 0 if unknown
  int local_size = 0;  ///< number of ranks of the job on this host; 0 if unknown
};

/// Returns a text such as "rank 3 (host b, pid 7)" for this process.
std::string describe_rank(const StartingJob& job);

/// Returns a text such as "ranks 0-1 (host b, pids 6, 7) have waited 3 s in horo::init() for rank
/// 2, which has not called it". `here` has the known ranks of this host in ascending order,
/// including those that are stopped or have left. It is empty if the ranks are unknown.
std::string describe_init_wait(const StartingJob& job, std::span<const InitRoster::Waiting> here,
                               std::chrono::nanoseconds waited);

struct InitNoticeOptions {
  std::chrono::nanoseconds stall_warning{std::chrono::seconds(3)};
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
  /// How much later than `timeout` this process ends itself if another process is to end first (see
  /// InitNotice). Also the longest wait after another rank has left init(). Meanwhile, the launcher
  /// can end the job.
  std::chrono::nanoseconds ends_later{std::chrono::seconds(5)};
  /// Whether MPI_Init has returned before the construction. If so, this process ends no earlier
  /// than `timeout` plus `ends_later`, because the later waits of init() have their own timeouts.
  bool is_mpi_running = false;
  /// Writes a line. The thread of InitNotice calls this function. If null, log_warning() writes the
  /// lines, but log_error() writes the line before the process ends.
  std::function<void(const std::string&)> report;
  /// Records the reason before the process ends. The thread of InitNotice calls this function. If
  /// null, the reason is not recorded.
  std::function<void(const std::string&)> record;
  /// Ends the process at once, without destructors. If null, _exit() ends the process.
  std::function<void(int code)> end_process;
};

/// Watches a wait of this rank in horo::init() from a thread, because MPI_Init has no timeout and
/// the watchdog starts later. One rank per host, the reporter, writes a line after `stall_warning`.
/// If the ranks of the host are unknown, every rank is a reporter. A reporter writes the next line
/// when the wait is ten times as long as in the previous line.
///
/// The first host is the host on which rank 0 waits, or the only host of the job. On other hosts,
/// the first line is due after four times `stall_warning`, and each later line after 40 times the
/// wait in the previous line. A slow start on many hosts thus usually gives one line.
///
/// After `timeout`, the reporter of the first host records the reason and ends its process with
/// kStuckExitCode. The launcher then ends the job. Every other process does the same at `timeout`
/// plus `ends_later`. If another rank of the host has just left init(), this process waits up to
/// `ends_later` from then, because the launcher probably ends the job for that rank's reason. After
/// MPI_Init has returned, no process ends before `timeout` plus `ends_later`. The thread ignores
/// time in which the process was stopped. The thread does not call MPI.
class InitNotice {
 public:
  InitNotice(StartingJob job, InitNoticeOptions options);
  /// Ends the watch. The caller must destroy this object when all ranks have joined or the wait has
  /// ended with an error.
  ~InitNotice();
  InitNotice(const InitNotice&) = delete;
  InitNotice& operator=(const InitNotice&) = delete;

  /// The caller must call this function when MPI_Init has returned. Restarts `timeout`, because the
  /// later waits of init() have their own timeouts.
  void note_that_mpi_runs();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void elect();
  bool ends_first(const std::vector<InitRoster::Waiting>& here) const;
  void look();
  void keep_ranks_that_left(std::vector<InitRoster::Waiting>& here);
  std::chrono::nanoseconds deadline(const std::vector<InitRoster::Waiting>& here) const;
  std::chrono::nanoseconds term() const;
  void end(const std::vector<InitRoster::Waiting>& here);

  const StartingJob job_;
  const InitNoticeOptions options_;
  const std::chrono::nanoseconds interval_;  // between two checks
  std::optional<InitRoster> roster_;         // not set if the other ranks are unknown
  // The value of waited_ at which the next line is due on the first host. On other hosts, the line
  // is due at kOtherHostsAfter times this value.
  std::chrono::nanoseconds due_;
  // waited_ is the time since the start, without the time in which the process was stopped.
  // counted_ is the same, but starts again at 0 when MPI_Init returns.
  std::chrono::nanoseconds waited_{0}, counted_{0};
  // The value of waited_ when this rank became the reporter of its host. Not set if this rank is
  // not the reporter.
  std::optional<std::chrono::nanoseconds> reports_since_;
  std::vector<InitRoster::Waiting> seen_;  // at the last check, including the ranks that have left
  // The value of counted_ when a rank last left init().
  std::optional<std::chrono::nanoseconds> rank_left_at_;
  std::atomic<bool> is_mpi_running_, is_restarted_{false};
  std::atomic<std::uint32_t> should_stop_{0};
  std::jthread thread_;  // last, because it uses all members above
};

}  // namespace horo

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "horo/init_roster.h"

namespace horo {

/// What a rank knows of its job before MPI connects it to the others.
struct StartingJob {
  std::string host;
  std::string id;      ///< see InitRoster; empty: the launcher did not say which job this is
  int rank = -1;       ///< -1: unknown
  int size = 0;        ///< 0: unknown
  int local_size = 0;  ///< ranks of the job on this host; 0: unknown
};

/// Pure. "ranks 0-1 (host b, pids 6, 7) have waited 3s in horo::init() for rank 2, which has not
/// called it". `here`: the ranks of this host that wait, ascending; empty: which wait is unknown.
std::string describe_init_wait(const StartingJob& job, std::span<const InitRoster::Waiting> here,
                               std::chrono::nanoseconds waited);

struct InitNoticeOptions {
  std::chrono::nanoseconds stall_warning{std::chrono::seconds(3)};
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
  /// How much later the process ends if another one is to end first: the one that reports, or this
  /// one by the deadline of its own wait.
  std::chrono::nanoseconds ends_later{std::chrono::seconds(5)};
  /// MPI runs already, so that the wait itself ends with an error after `timeout`.
  bool is_mpi_running = false;
  /// Shows a line, from the thread; null: log_warning and, for the last line, log_error.
  std::function<void(const std::string&)> report;
  /// Records, from the thread, why the process ends, before it ends; null: nothing.
  std::function<void(const std::string&)> record;
  /// Ends the process at once, without destructors; null: _exit.
  std::function<void(int code)> end_process;
};

/// Watches from a thread of its own, as long as it lives, that this rank waits in horo::init():
/// MPI_Init has no deadline, and the watchdog starts later. One rank of the host writes a line
/// after `stall_warning`, and again after ten times as long. A host on which rank 0 does not wait
/// writes it after four times as long, so that a slow start on many hosts is one line. After
/// `timeout` it records the reason and ends the process with kStuckExitCode, and the launcher ends
/// the job. Time in which the process was stopped does not count. The thread calls no MPI.
class InitNotice {
 public:
  InitNotice(StartingJob job, InitNoticeOptions options);
  /// All ranks have joined, or the wait has ended with an error.
  ~InitNotice();
  InitNotice(const InitNotice&) = delete;
  InitNotice& operator=(const InitNotice&) = delete;

  /// MPI_Init has returned: `timeout` begins again, and waits have a deadline of their own.
  void note_that_mpi_runs();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void elect();
  bool ends_first(const std::vector<InitRoster::Waiting>& here) const;
  void look();
  void end(const std::vector<InitRoster::Waiting>& here);

  const StartingJob job_;
  const InitNoticeOptions options_;
  const std::chrono::nanoseconds interval_;  // between two looks
  std::optional<InitRoster> roster_;         // none: nothing is known of the other ranks
  std::chrono::nanoseconds due_;             // the wait after which the next line is written
  std::chrono::nanoseconds waited_{0}, counted_{0};  // since the start; since MPI_Init returned
  // Since when, in waited_, this rank writes the lines of its host; none: another rank does.
  std::optional<std::chrono::nanoseconds> reports_since_;
  std::atomic<bool> is_mpi_running_, is_restarted_{false};
  std::atomic<std::uint32_t> should_stop_{0};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace horo

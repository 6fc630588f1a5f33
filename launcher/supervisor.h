#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "horo/observe/flight_directory.h"
#include "launcher/failure_scanner.h"
#include "launcher/job_monitor.h"
#include "launcher/output_queue.h"
#include "launcher/process.h"
#include "launcher/rank_end.h"
#include "launcher/signal_inbox.h"

namespace horo {

/// How long a job that was told to stop may take before it is told harder.
struct Patience {
  std::chrono::milliseconds before_term{
      5000};  ///< from the first signal to SIGTERM for mpirun's group
  std::chrono::milliseconds before_kill{5000};                ///< from there to SIGKILL
  std::chrono::milliseconds before_kill_without_ranks{2000};  ///< the same if no rank runs
};

/// How a job ended. Of several causes the first in this order counts: stop, failure, forced_end,
/// launch_error. The fields hold what was known when the job was first stopped, by a signal or by
/// this process. Later reports are consequences.
struct JobResult {
  int wait_status = 0;                      ///< of mpirun
  std::optional<observe::StopOrder> stop;   ///< this process was told to stop the job
  std::vector<RankEnd> rank_ends;           ///< in the order in which they were reported
  std::optional<RankFailure> failure;       ///< see first_failure()
  std::optional<ForcedEnd> forced_end;      ///< this process ended the job by itself
  std::optional<std::string> lost_host;     ///< that mpirun has lost its connection to
  std::optional<std::string> launch_error;  ///< of the remote shell, if no rank was seen to start
};

/// The first rank that failed: by the ends that were reported, or else by mpirun's report.
std::optional<RankFailure> first_failure(const std::vector<RankEnd>& ends,
                                         const std::optional<RankFailure>& of_mpirun);

/// The signal that killed mpirun although nobody had told the job to stop; none if none did.
std::optional<int> crash_of_mpirun(const JobResult& result);

/// Exit code of a job that this process ended by itself, as of a rank that its watchdog ended.
inline constexpr int kForcedEndExitCode = 75;

/// The exit code for a job: as shells give it for the signal that stopped it, or the first rank
/// that failed, as far as mpirun says.
int exit_code_of(const JobResult& result);

/// The signals that supervise() acts on: those that stop a job, those passed on to it (SIGUSR1,
/// SIGUSR2) and SIGCHLD.
std::vector<int> supervised_signals();

/// Waits for `mpirun` to end. Passes its standard error to `errors`, whose reader may be slow, and
/// the signals of `inbox` on. After a request to stop it sends SIGTERM, then SIGKILL. When
/// the job failed or was stopped, no process of it is left on return, and no file of Open MPI's in
/// this machine's /dev/shm and temporary directory. Ends a job that cannot end by itself
/// (JobMonitor).
JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, OutputQueue& errors,
                    const Patience& patience = {}, const MonitorTimes& times = {});

/// Waits until all of `output` is written. Gives it up when a signal that stops a job comes, or
/// after `limit`.
void write_out(OutputQueue& output, SignalInbox& inbox,
               std::optional<std::chrono::milliseconds> limit = {});

}  // namespace horo

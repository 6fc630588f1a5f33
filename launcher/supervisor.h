#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "horo/flight_recorder/flight_directory.h"
#include "launcher/failure_scanner.h"
#include "launcher/job_monitor.h"
#include "launcher/output_queue.h"
#include "launcher/process.h"
#include "launcher/rank/rank_end.h"

namespace horo {

/// The times after which a job that does not stop gets a stronger signal.
struct Patience {
  /// From the first signal to SIGTERM for the process group of mpirun.
  std::chrono::milliseconds before_term{5000};
  std::chrono::milliseconds before_kill{5000};                ///< from SIGTERM to SIGKILL
  std::chrono::milliseconds before_kill_without_ranks{2000};  ///< the same if no rank runs
};

/// How a job ended. If there are several causes, the first one in this order counts: stop, failure,
/// forced_end, launch_error. The fields describe the moment when a signal or this process first
/// stopped the job. Later reports are consequences.
struct JobResult {
  int wait_status = 0;                       ///< of mpirun
  std::optional<observe::StopRequest> stop;  ///< this process was told to stop the job
  std::vector<RankEnd> rank_ends;            ///< in the order of the reports
  std::optional<RankFailure> failure;        ///< see first_failure()
  std::optional<ForcedEnd> forced_end;       ///< this process ended the job by itself
  std::optional<std::string> lost_host;      ///< the host to which mpirun lost its connection
  std::optional<std::string> launch_error;   ///< from the remote shell, if no rank was found
  std::string printed;  ///< the end of the standard error of mpirun and the ranks
};

/// The first failed rank: according to the reports of the runners, otherwise to the report of
/// mpirun.
std::optional<RankFailure> first_failure(const std::vector<RankEnd>& ends,
                                         const std::optional<RankFailure>& of_mpirun);

/// The signal that killed mpirun although the job was not told to stop; none otherwise.
std::optional<int> crash_of_mpirun(const JobResult& result);

/// The exit code of a job that hororun ended by itself, and of a rank that the watchdog ended.
inline constexpr int kForcedEndExitCode = 75;

/// The exit code of a job as a shell reports it: for the signal that stopped the job, or for the
/// first failed rank if it is known.
int exit_code_of(const JobResult& result);

/// The signals that supervise() handles: signals that stop a job, signals that it forwards
/// (SIGUSR1, SIGUSR2), and SIGCHLD.
std::vector<int> supervised_signals();

/// Waits until `mpirun` ends. Forwards its standard error to `errors`, whose reader may be slow,
/// and the signals of `inbox` to mpirun. After a request to stop, sends SIGTERM and later SIGKILL.
/// Ends a job that cannot end by itself (JobMonitor). If the job failed or was stopped, leaves none
/// of its processes on this machine, and no file of Open MPI in /dev/shm and the temporary
/// directory.
JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, OutputQueue& errors,
                    const Patience& patience = {}, const MonitorTimes& times = {});

/// Waits until all of `output` is written. Gives up after `limit`, or when a signal that stops a
/// job arrives.
void write_out(OutputQueue& output, SignalInbox& inbox,
               std::optional<std::chrono::milliseconds> limit = {});

}  // namespace horo

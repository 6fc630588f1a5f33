#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "horo/flight_recorder/flight_directory.h"
#include "launcher/failure_scanner.h"
#include "launcher/job/job_monitor.h"
#include "launcher/output_queue.h"
#include "launcher/process.h"
#include "launcher/rank/rank_end.h"

namespace horo {

/// The times after which hororun sends a stronger signal to a job that does not stop.
struct Patience {
  /// From a first SIGTERM, of which this process informs the ranks (kStopSignal), to SIGTERM for
  /// mpirun, which then kills the ranks within seconds. If 0, mpirun gets SIGTERM at once.
  std::chrono::milliseconds before_stop{30000};
  /// From the first signal to mpirun that stops the job to SIGTERM for the process group of mpirun.
  std::chrono::milliseconds before_term{5000};
  std::chrono::milliseconds before_kill{5000};                ///< from SIGTERM to SIGKILL
  std::chrono::milliseconds before_kill_without_ranks{2000};  ///< the same if no rank runs
};

/// How a job ended. If there are several causes and no flight records, the verdict names the first
/// one in this order: stop, lost_host, failure, forced_end, launch_error. If a signal or this
/// process stopped the job, rank_ends, failure, lost_host and launch_error contain only what was
/// known at that time, because later reports are consequences of the stop.
struct JobResult {
  int wait_status = 0;                       ///< wait status of mpirun
  std::optional<observe::StopRequest> stop;  ///< the signal that told this process to stop the job
  std::vector<RankEnd> rank_ends;            ///< in the order of the reports
  std::optional<RankFailure> failure;        ///< see first_failure()
  std::optional<ForcedEnd> forced_end;       ///< why this process ended the job by itself
  std::optional<std::string> lost_host;      ///< the host to which mpirun lost its connection
  std::optional<std::string> launch_error;   ///< error of the remote shell, if no rank was found
  std::string printed;  ///< the last part of the standard error of mpirun and the ranks
};

/// Returns the first failed rank according to the reports of the runners. If they report no
/// failure, returns `of_mpirun`, the report of mpirun.
std::optional<RankFailure> first_failure(const std::vector<RankEnd>& ends,
                                         const std::optional<RankFailure>& of_mpirun);

/// Returns the signal that killed mpirun, if neither a signal to this process nor this process
/// itself stopped the job; nullopt otherwise.
std::optional<int> crash_of_mpirun(const JobResult& result);

/// The exit code of a job that hororun ended by itself, and of a process that horo ended
/// (observe::kStuckExitCode).
inline constexpr int kForcedEndExitCode = 75;

/// The exit code of a job as a shell reports it. The first rule that applies gives the exit code:
/// - Signal n told this process to stop the job: 0 if all ranks ended with 0, otherwise 128 + n.
/// - This process ended the job by itself, mpirun crashed, or mpirun exited with the code of
///   SIGPIPE, and the first failed rank is known: the exit code of that rank, unless it is 0. A
///   rank that SIGPIPE killed has probably not failed first (see first_failure()).
/// - This process ended the job by itself: kForcedEndExitCode.
/// - Otherwise: the exit code of mpirun.
int exit_code_of(const JobResult& result);

/// The signals that supervise() handles. SIGINT, SIGTERM and SIGHUP stop a job. SIGUSR1 and SIGUSR2
/// are only forwarded to mpirun. SIGCHLD reports the end of a child.
std::vector<int> supervised_signals();

/// Waits until `mpirun` has ended. Forwards the standard error of mpirun to `errors`, whose reader
/// may be slow. Forwards the signals of `inbox`, except SIGCHLD and a first SIGTERM, to mpirun. A
/// first SIGTERM becomes kStopSignal, so that the ranks can end in order; after
/// Patience::before_stop, or if another signal stops the job, mpirun gets SIGTERM. If mpirun does
/// not end then, sends SIGTERM and later SIGKILL to its process group. Does the same to a job that
/// cannot end by itself (JobMonitor). If the job failed or was stopped, kills all its processes on
/// this machine, and removes the files that Open MPI left in /dev/shm and in its session
/// directories.
JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, OutputQueue& errors,
                    const Patience& patience = {}, const MonitorTimes& times = {});

/// Waits until all bytes of `output` are written. Drops the remaining bytes after `limit`, if it is
/// set, or when a signal that stops a job arrives.
void write_out(OutputQueue& output, SignalInbox& inbox,
               std::optional<std::chrono::milliseconds> limit = {});

}  // namespace horo

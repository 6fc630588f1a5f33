#pragma once

#include <chrono>
#include <optional>

#include "horo/observe/flight_directory.h"
#include "launcher/failure_scanner.h"
#include "launcher/process.h"
#include "launcher/signal_inbox.h"

namespace horo {

/// How long a job that was told to stop may take before it is told harder.
struct Patience {
  std::chrono::milliseconds before_term{
      5000};  ///< from the first signal to SIGTERM for mpirun's group
  std::chrono::milliseconds before_kill{5000};  ///< from there to SIGKILL
};

struct JobResult {
  int wait_status = 0;                     ///< of mpirun
  std::optional<observe::StopOrder> stop;  ///< this process was told to stop the job
  std::optional<RankFailure> failure;      ///< the first rank that failed, if mpirun said
};

/// The signals that supervise() acts on: those that stop a job, those passed on to it (SIGUSR1,
/// SIGUSR2) and SIGCHLD.
std::vector<int> supervised_signals();

/// Waits for `mpirun` to end. Passes its standard error and the signals of `inbox` on, and stops it
/// with growing force once it has been told to stop. When the job failed or was stopped, no process
/// of it is left on return.
JobResult supervise(const ChildProcess& mpirun, SignalInbox& inbox, const Patience& patience = {});

}  // namespace horo

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/rank_group.h"
#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/context.h"
#include "horo/flight_recorder/crash_recorder.h"
#include "horo/flight_recorder/flight_format.h"
#include "horo/runtime/init_notice.h"
#include "horo/runtime/runtime.h"

namespace horo {

/// What all forms of init() use: the variables of the process environment, the settings in them,
/// and the options of the caller.
struct InitInput {
  const std::vector<std::string>& entries;
  ParsedEnvironment environment;
  const InitOptions& options;
};

/// Watches the waits of a rank in init(). Must exist until make_context() has returned. By then,
/// the runtime has its own crash recorder and, with several ranks, a watchdog.
class InitWatch {
 public:
  /// Installs the handlers of crashes, and starts the thread that warns of long waits and ends the
  /// process after HORO_TIMEOUT. For `is_connected`, see InitNoticeOptions::is_mpi_running.
  InitWatch(const InitInput& input, const StartingJob& job, bool is_connected);
  /// See InitNotice::note_that_mpi_runs().
  void note_that_mpi_runs() { notice_.note_that_mpi_runs(); }

 private:
  observe::FlightHeader header_{};
  observe::CrashRecorder crash_recorder_;
  InitNotice notice_;
};

/// Makes the runtime of this rank. Sets the log label before the runtime starts its threads,
/// because the threads inherit the label. `session` is null if the ranks are threads of one
/// process. Collective.
Context make_context(std::unique_ptr<Session> session,
                     std::unique_ptr<collectives::Transport> transport, InitInput input);

/// The session of a process that does not use MPI after init().
std::unique_ptr<Session> make_process_session();

/// Connects the ranks of `group` over sockets. Collective.
std::unique_ptr<collectives::Transport> connect_over_sockets(collectives::RankGroup& group,
                                                             const Settings& settings);

/// The wait policy until the transport has determined how many ranks share this machine: that of
/// one rank, without the extra time for the watchdog, which does not exist yet.
WaitPolicy wait_policy_in_init(const Settings& settings);
/// The wait policy of a job with this topology.
WaitPolicy wait_policy_of(const Topology& topology, const Settings& settings);

std::string host_name();

/// Whether MPI is initialised and not finalised. False in builds without MPI.
bool is_mpi_in_use();
/// Joins the job of all processes of MPI. Throws CommunicationError in builds without MPI.
Context join_mpi_world(InitInput input);

/// If init() fails, the rank may not have a flight recorder yet. This function therefore makes a
/// recorder for the error, which hororun reads.
template <typename Join>
Context join_or_record(const std::vector<std::string>& entries, const Join& join) {
  try {
    return join();
  } catch (const std::exception& error) {
    record_failed_init(entries, error.what());
    throw;
  }
}

}  // namespace horo

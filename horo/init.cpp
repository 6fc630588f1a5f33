#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "collectives/in_process/in_process_job.h"
#include "collectives/mpi/launch_environment.h"
#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/mpi_library.h"
#include "collectives/mpi/mpi_session.h"
#include "collectives/mpi/mpi_transport.h"
#include "horo/base/hash.h"
#include "horo/base/text/log.h"
#include "horo/flight_recorder/crash_recorder.h"
#include "horo/flight_recorder/flight_format.h"
#include "horo/mpi.h"
#include "horo/runtime/init_notice.h"
#include "horo/runtime/rank_flight.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

// Adapts MpiSession to Session, the interface through which Runtime uses MPI.
class OwnedMpi : public Session {
 public:
  OwnedMpi(const Settings& settings, const std::vector<std::string>& entries)
      : session_(settings.ring_segment_bytes, entries) {}
  void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit) override {
    session_.watch(std::move(before_finalize), std::move(at_exit));
  }
  void unwatch() override { session_.unwatch(); }
  void exit_late() override { collectives::MpiSession::exit_late(); }
  bool is_last() override { return session_.is_last(); }
  void finalize() override { session_.finalize(); }

 private:
  collectives::MpiSession session_;
};

// Sets the log label before the runtime starts its threads, because the threads inherit the label.
Context make_context(std::unique_ptr<Session> session,
                     std::unique_ptr<collectives::Transport> transport,
                     ParsedEnvironment environment, const InitOptions& options) {
  const int rank = transport->topology().rank;
  set_log_label(options.log_label.empty() ? fmt::format("rank {}", rank) : options.log_label);
  set_log_level(environment.settings.log_level);
  if (rank == 0)
    for (const std::string& warning : environment.warnings) log_warning("{}", warning);
  return Context(share(
      std::make_unique<Runtime>(std::move(session), std::move(transport), std::move(environment))));
}

// Returns what is known about the job before MPI connects the ranks: the contents of the
// environment variables of the launcher. If the program has initialised MPI, the ranks of
// `communicator` are known too. If these are not all ranks that the launcher has started, the id of
// the job also has a hash of these ranks.
StartingJob starting_job(MPI_Comm communicator, const std::vector<std::string>& entries) {
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof host - 1);
  StartingJob job{.host = host, .id = {}, .rank = collectives::launched_rank(entries).value_or(-1)};
  const auto launched = collectives::launched_job(entries);
  if (!launched) return job;
  job.id = launched->id;
  job.size = launched->size;
  job.local_size = launched->local_size;
  if (!mpi_is_running()) return job;
  const std::vector<int> ranks = collectives::world_ranks_of(communicator);
  if (static_cast<int>(ranks.size()) == job.size) return job;
  job.id +=
      fmt::format("-{:08x}", Hash().add_bytes(ranks.data(), ranks.size() * sizeof(int)).value());
  const auto own = std::ranges::find(ranks, launched->rank);
  job.rank = static_cast<int>(own - ranks.begin());
  job.size = static_cast<int>(ranks.size());
  job.local_size = 0;  // unknown
  return job;
}

// The order of the local objects matters. The crash recorder and the notice must exist while
// MPI_Init and the first collectives wait for other ranks. Both are destroyed after make_context()
// has returned. By then, the runtime has its own crash recorder and, with several ranks, a
// watchdog.
Context init_with_mpi(MPI_Comm communicator, const std::vector<std::string>& entries,
                      ParsedEnvironment environment, const InitOptions& options) {
  collectives::require_mpi_of_build();
  if (std::string warning = collectives::warning_of_mpi_version(); !warning.empty())
    environment.warnings.push_back(std::move(warning));
  const Settings& settings = environment.settings;
  set_log_level(settings.log_level);
  const StartingJob job = starting_job(communicator, entries);
  // If horo initialises MPI, this handler is installed before MPI_Init. Open MPI then keeps the
  // handler and does not install its own.
  observe::FlightHeader no_recorder{};
  const observe::CrashRecorder crash_recorder(no_recorder, nullptr, describe_rank(job));
  // The thread of the notice ends the process if MPI_Init does not return in time.
  InitNotice notice(job, InitNoticeOptions{.stall_warning = settings.stall_warning,
                                           .timeout = settings.timeout,
                                           .is_mpi_running = mpi_is_running(),
                                           .record = [&](const std::string& why) {
                                             record_wait_in_init(entries, why);
                                           }});
  auto session = std::make_unique<OwnedMpi>(settings, entries);
  notice.note_that_mpi_runs();
  // The transport determines how many ranks share this machine. The policy assumes one until then.
  WaitPolicy policy = make_wait_policy(settings, 1);
  policy.grace = std::chrono::nanoseconds(0);  // there is no watchdog yet
  auto transport =
      std::make_unique<collectives::MpiTransport>(communicator, policy, settings.ranks_per_node);
  const Topology& topology = transport->topology();
  const int ranks_here = settings.ranks_per_node == 0 ? topology.local_size : topology.size;
  transport->set_wait_policy(make_wait_policy(settings, ranks_here));
  return make_context(std::move(session), std::move(transport), std::move(environment), options);
}

// If no launcher started the process and the program has not initialised MPI, the job has one rank
// and uses no MPI. The transport shares the ownership of the job's state, so the InProcessJob may
// be a temporary object.
Context init_from_environment(const std::vector<std::string>& entries, const InitOptions& options) {
  ParsedEnvironment environment = parse_environment(entries);
  if (mpi_is_running() || is_started_by_launcher(entries))
    return init_with_mpi(MPI_COMM_WORLD, entries, std::move(environment), options);
  const std::string warning = collectives::warning_of_step_without_mpi(entries);
  if (!warning.empty()) log_warning("{}", warning);
  collectives::InProcessJob::Options alone;
  alone.wait = make_wait_policy(environment.settings, 1);
  return make_context(nullptr, collectives::InProcessJob(1, alone).transport(0),
                      std::move(environment), options);
}

// If init() fails, the rank may not have a flight recorder yet. record_failed_init() therefore
// makes a recorder for the error, which hororun reads.
template <typename Join>
Context join_or_record(const std::vector<std::string>& entries, const Join& join) {
  try {
    return join();
  } catch (const std::exception& error) {
    record_failed_init(entries, error.what());
    throw;
  }
}

}  // namespace

Context init(const InitOptions& options) {
  const std::vector<std::string> entries = process_environment();
  return join_or_record(entries, [&] { return init_from_environment(entries, options); });
}

Context init(MPI_Comm communicator, const InitOptions& options) {
  HORO_CHECK(mpi_is_running(), "horo::init(communicator): MPI is not initialised");
  const std::vector<std::string> entries = process_environment();
  return join_or_record(entries, [&] {
    return init_with_mpi(communicator, entries, parse_environment(entries), options);
  });
}

}  // namespace horo

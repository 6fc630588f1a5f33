#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <optional>

#include "collectives/in_process/in_process_job.h"
#include "collectives/mpi/launch_signs.h"
#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/mpi_session.h"
#include "collectives/mpi/mpi_transport.h"
#include "horo/base/log.h"
#include "horo/init_notice.h"
#include "horo/mpi.h"
#include "horo/runtime.h"

namespace horo {
namespace {

class OwnedMpi : public Session {
 public:
  OwnedMpi(const Settings& settings, const std::vector<std::string>& entries)
      : session_(settings.ring_segment_bytes, entries) {}
  void watch(std::function<void()> before_finalize, std::function<void()> at_exit) override {
    session_.watch(std::move(before_finalize), std::move(at_exit));
  }
  void unwatch() override { session_.unwatch(); }
  void exit_late() override { collectives::MpiSession::exit_late(); }
  void finalize() override { session_.finalize(); }

 private:
  collectives::MpiSession session_;
};

Context make_context(std::unique_ptr<Session> session,
                     std::unique_ptr<collectives::Transport> transport,
                     ParsedEnvironment environment, const InitOptions& options) {
  const int rank = transport->topology().rank;
  set_log_label(options.log_label.empty() ? fmt::format("rank {}", rank) : options.log_label);
  set_log_level(environment.settings.log_level);
  if (rank == 0)
    for (const std::string& warning : environment.warnings) log_warning("{}", warning);
  return Context(
      std::make_shared<Runtime>(std::move(session), std::move(transport), std::move(environment)));
}

// "rank 3 (host b, pid 7)", before MPI says so itself.
std::string describe_this_rank(const std::vector<std::string>& entries) {
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof host - 1);
  const auto rank = collectives::launched_rank(entries);
  return fmt::format("{} (host {}, pid {})", rank ? fmt::format("rank {}", *rank) : "a rank", host,
                     getpid());
}

Context init_with_mpi(MPI_Comm communicator, const std::vector<std::string>& entries,
                      ParsedEnvironment environment, const InitOptions& options) {
  const Settings& settings = environment.settings;
  set_log_level(settings.log_level);
  std::optional<InitNotice> notice;
  notice.emplace(describe_this_rank(entries), settings.stall_warning, settings.timeout);
  auto session = std::make_unique<OwnedMpi>(settings, entries);
  // How many ranks share the machine is known only once all have come.
  auto transport = std::make_unique<collectives::MpiTransport>(
      communicator, make_wait_policy(settings, 1), settings.ranks_per_node);
  notice.reset();
  const Topology& topology = transport->topology();
  const int ranks_here = settings.ranks_per_node == 0 ? topology.local_size : topology.size;
  transport->set_wait_policy(make_wait_policy(settings, ranks_here));
  return make_context(std::move(session), std::move(transport), std::move(environment), options);
}

}  // namespace

Context init(const InitOptions& options) {
  const std::vector<std::string> entries = process_environment();
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

Context init(MPI_Comm communicator, const InitOptions& options) {
  HORO_CHECK(mpi_is_running(), "horo::init(communicator): MPI is not initialised");
  const std::vector<std::string> entries = process_environment();
  ParsedEnvironment environment = parse_environment(entries);
  return init_with_mpi(communicator, entries, std::move(environment), options);
}

}  // namespace horo

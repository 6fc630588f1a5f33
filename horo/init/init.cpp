#include <fmt/format.h>
#include <unistd.h>

#include <climits>

#include "collectives/in_process/in_process_job.h"
#include "collectives/rank_group.h"
#include "collectives/sockets/socket_transport.h"
#include "horo/base/system/exit_watch.h"
#include "horo/base/system/launch_environment.h"
#include "horo/base/text/log.h"
#include "horo/bootstrap.h"
#include "horo/init/init_steps.h"
#include "horo/runtime/rank_flight.h"

namespace horo {
namespace {

class ProcessSession : public Session {
 public:
  void watch(std::function<void()>, std::function<void(int)> at_exit) override {
    exit_.watch(std::move(at_exit));
  }
  void unwatch() override { exit_.unwatch(); }
  void exit_late() override { ExitWatch::exit_late(); }
  bool is_last() override { return false; }
  void finalize() override { exit_.unwatch(); }

 private:
  ExitWatch exit_;
};

class BootstrapGroup : public collectives::RankGroup {
 public:
  explicit BootstrapGroup(const Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  int rank() const override { return bootstrap_.rank; }
  int size() const override { return bootstrap_.size; }
  std::vector<std::byte> gather(std::span<const std::byte> own, std::string_view) override {
    std::vector<std::byte> all(own.size() * static_cast<std::size_t>(bootstrap_.size));
    bootstrap_.allgather(own, all);
    return all;
  }

 private:
  const Bootstrap& bootstrap_;
};

Context init_over_bootstrap(const Bootstrap& bootstrap, InitInput input) {
  const Settings settings = input.environment.settings;
  set_log_level(settings.log_level);
  const StartingJob job{
      .host = host_name(), .id = {}, .rank = bootstrap.rank, .size = bootstrap.size};
  const InitWatch watch(input, job, true);
  auto session = make_process_session();
  BootstrapGroup group(bootstrap);
  return make_context(std::move(session), connect_over_sockets(group, settings), std::move(input));
}

// If no launcher started the process and the program has not initialised MPI, the job has one rank
// and uses no MPI. The transport shares the ownership of the job's state, so the InProcessJob may
// be a temporary object.
Context init_from_environment(InitInput input) {
  if (is_mpi_in_use() || is_started_by_launcher(input.entries))
    return join_mpi_world(std::move(input));
  const std::string warning = warning_of_step_without_mpi(input.entries);
  if (!warning.empty()) log_warning("{}", warning);
  collectives::InProcessJob::Options alone;
  alone.wait = make_wait_policy(input.environment.settings, 1);
  return make_context(nullptr, collectives::InProcessJob(1, alone).transport(0), std::move(input));
}

}  // namespace

// If horo initialises MPI, the handlers are installed before MPI_Init. Open MPI then keeps them and
// does not install its own.
InitWatch::InitWatch(const InitInput& input, const StartingJob& job, bool is_connected)
    : crash_recorder_(header_, nullptr, describe_rank(job)),
      notice_(job, InitNoticeOptions{.stall_warning = input.environment.settings.stall_warning,
                                     .timeout = input.environment.settings.timeout,
                                     .is_mpi_running = is_connected,
                                     .record = [&entries = input.entries](const std::string& why) {
                                       record_wait_in_init(entries, why);
                                     }}) {}

Context make_context(std::unique_ptr<Session> session,
                     std::unique_ptr<collectives::Transport> transport, InitInput input) {
  const int rank = transport->topology().rank;
  const std::string& label = input.options.log_label;
  set_log_label(label.empty() ? fmt::format("rank {}", rank) : label);
  set_log_level(input.environment.settings.log_level);
  if (rank == 0)
    for (const std::string& warning : input.environment.warnings) log_warning("{}", warning);
  return Context(share(std::make_unique<Runtime>(std::move(session), std::move(transport),
                                                 std::move(input.environment))));
}

std::unique_ptr<Session> make_process_session() { return std::make_unique<ProcessSession>(); }

std::unique_ptr<collectives::Transport> connect_over_sockets(collectives::RankGroup& group,
                                                             const Settings& settings) {
  auto transport = std::make_unique<collectives::SocketTransport>(
      group, wait_policy_in_init(settings), settings.ranks_per_node, settings.interfaces);
  transport->set_wait_policy(wait_policy_of(transport->topology(), settings));
  return transport;
}

WaitPolicy wait_policy_in_init(const Settings& settings) {
  WaitPolicy policy = make_wait_policy(settings, 1);
  policy.grace = std::chrono::nanoseconds(0);
  return policy;
}

WaitPolicy wait_policy_of(const Topology& topology, const Settings& settings) {
  return make_wait_policy(settings,
                          settings.ranks_per_node == 0 ? topology.local_size : topology.size);
}

std::string host_name() {
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof host - 1);
  return host;
}

Context init(const InitOptions& options) {
  const std::vector<std::string> entries = process_environment();
  return join_or_record(entries, [&] {
    return init_from_environment({entries, parse_environment(entries), options});
  });
}

Context init(const Bootstrap& bootstrap, const InitOptions& options) {
  HORO_CHECK(bootstrap.allgather != nullptr, "horo::init(bootstrap): allgather is empty");
  HORO_CHECK(bootstrap.rank >= 0 && bootstrap.rank < bootstrap.size,
             fmt::format("horo::init(bootstrap): rank {} is outside of a job of {} ranks",
                         bootstrap.rank, bootstrap.size));
  const std::vector<std::string> entries = process_environment();
  return join_or_record(entries, [&] {
    return init_over_bootstrap(bootstrap, {entries, parse_environment(entries), options});
  });
}

}  // namespace horo

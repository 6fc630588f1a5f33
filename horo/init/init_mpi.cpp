// The forms of init() that use MPI.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/mpi/mpi_group.h"
#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/mpi_library.h"
#include "collectives/mpi/mpi_session.h"
#include "collectives/mpi/mpi_transport.h"
#include "horo/base/hash.h"
#include "horo/base/system/exit_watch.h"
#include "horo/base/system/launch_environment.h"
#include "horo/base/text/log.h"
#include "horo/init/init_steps.h"
#include "horo/mpi.h"
#include "horo/runtime/rank_flight.h"

namespace horo {
namespace {

// The session of a process that uses MPI. If only init() uses MPI, the program may finalise MPI
// before it shuts horo down.
class OwnedMpi : public Session {
 public:
  OwnedMpi(const Settings& settings, const std::vector<std::string>& entries)
      : mpi_(settings.ring_segment_bytes, entries) {}
  const collectives::MpiSession& mpi() const { return mpi_; }
  void use_mpi_only_in_init() { uses_mpi_only_in_init_ = true; }

  void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit) override {
    if (!uses_mpi_only_in_init_) mpi_.watch_finalize(std::move(before_finalize));
    exit_.watch(std::move(at_exit));
  }
  void unwatch() override {
    exit_.unwatch();
    mpi_.unwatch();
  }
  void exit_late() override { ExitWatch::exit_late(); }
  bool is_last() override { return mpi_.is_last(); }
  void finalize() override {
    exit_.unwatch();
    mpi_.finalize();
  }

 private:
  ExitWatch exit_;
  collectives::MpiSession mpi_;
  bool uses_mpi_only_in_init_ = false;
};

// Returns what is known about the job before MPI connects the ranks: the contents of the
// environment variables of the launcher. If the program has initialised MPI, the ranks of
// `communicator` are known too. If these are not all ranks that the launcher has started, the id of
// the job also has a hash of these ranks.
StartingJob starting_job(MPI_Comm communicator, const std::vector<std::string>& entries) {
  StartingJob job{.host = host_name(), .id = {}, .rank = launched_rank(entries).value_or(-1)};
  const auto launched = launched_job(entries);
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

// Whether the ranks send messages over sockets. All ranks get the same result or the same error.
// The settings of the ranks are compared here, although init() compares all settings later, because
// this comparison needs a transport.
bool agree_on_sockets(collectives::RankGroup& group, Messages setting, bool allows_threads) {
  struct OfRank {
    Messages messages{};
    bool allows_threads = false;
  };
  const std::vector<OfRank> ranks = group.gather_values(
      OfRank{setting, allows_threads}, "for all ranks to agree on what carries their messages");
  const auto other = std::ranges::find_if(
      ranks, [&](const OfRank& rank) { return rank.messages != ranks.front().messages; });
  if (other != ranks.end())
    throw MismatchError(fmt::format(
        "the settings of the ranks differ: HORO_MESSAGES={} on rank 0, HORO_MESSAGES={} on rank "
        "{}; pass the same value to every rank (hororun --env does)",
        name_of(ranks.front().messages), name_of(other->messages), other - ranks.begin()));
  const auto without_threads =
      std::ranges::find_if(ranks, [](const OfRank& rank) { return !rank.allows_threads; });
  if (setting == Messages::kMpi && without_threads != ranks.end())
    throw InvalidArgument(fmt::format(
        "HORO_MESSAGES=mpi needs MPI_THREAD_MULTIPLE, and rank {} initialised MPI with a lower "
        "thread level: call MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or unset HORO_MESSAGES",
        without_threads - ranks.begin()));
  return setting == Messages::kSockets || without_threads != ranks.end();
}

Context join_communicator(MPI_Comm communicator, InitInput input) {
  collectives::require_mpi_of_build();
  if (std::string warning = collectives::warning_of_mpi_version(); !warning.empty())
    input.environment.warnings.push_back(std::move(warning));
  const Settings settings = input.environment.settings;
  set_log_level(settings.log_level);
  InitWatch watch(input, starting_job(communicator, input.entries), mpi_is_running());
  auto session = std::make_unique<OwnedMpi>(settings, input.entries);
  watch.note_that_mpi_runs();
  const WaitPolicy policy = wait_policy_in_init(settings);
  // The group has a communicator of its own. This rank calls MPI on this thread only, until it
  // knows that all ranks may call it from other threads.
  collectives::MpiGroup group(
      MpiComm::duplicate_of(communicator, policy, collectives::kWaitForAllRanks), policy);
  if (agree_on_sockets(group, settings.messages, session->mpi().allows_threads())) {
    session->use_mpi_only_in_init();
    return make_context(std::move(session), connect_over_sockets(group, settings),
                        std::move(input));
  }
  auto transport =
      std::make_unique<collectives::MpiTransport>(communicator, policy, settings.ranks_per_node);
  transport->set_wait_policy(wait_policy_of(transport->topology(), settings));
  return make_context(std::move(session), std::move(transport), std::move(input));
}

}  // namespace

bool is_mpi_in_use() { return mpi_is_running(); }

Context join_mpi_world(InitInput input) {
  return join_communicator(MPI_COMM_WORLD, std::move(input));
}

Context init(MPI_Comm communicator, const InitOptions& options) {
  HORO_CHECK(mpi_is_running(), "horo::init(communicator): MPI is not initialised");
  const std::vector<std::string> entries = process_environment();
  return join_or_record(entries, [&] {
    return join_communicator(communicator, {entries, parse_environment(entries), options});
  });
}

}  // namespace horo

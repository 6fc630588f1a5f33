#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/selection/allreduce_selection.h"
#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/coordinator/arena_table.h"
#include "horo/coordinator/coordinator.h"
#include "horo/observe/rank_activity.h"
#include "horo/observe/watchdog.h"

namespace horo {

/// What keeps MPI (or whatever carries the job) initialised.
class Session {
 public:
  virtual ~Session() = default;
  /// Ends it in good order. Called once, when every other object of the runtime is gone.
  virtual void finalize() = 0;
};

/// One rank's membership in a job: its transport, settings and coordinator. Owns them and takes
/// them down in order. Thread-safe.
class Runtime {
 public:
  /// Collective. Throws MismatchError if the ranks' settings differ. `session` may be null.
  Runtime(std::unique_ptr<Session> session, std::unique_ptr<collectives::Transport> transport,
          ParsedEnvironment environment);
  ~Runtime();

  const Topology& topology() const { return topology_; }
  const Settings& settings() const { return environment_.settings; }
  collectives::Transport& transport() { return *transport_; }
  /// How communicators of this job choose among the allreduces over messages.
  const collectives::AllreduceSelection& allreduce() const { return allreduce_; }
  coordinator::ArenaTable& arenas() { return arenas_; }
  /// What this rank is doing, for the watchdog.
  observe::RankActivity& activity() { return activity_; }

  /// `entry.request.name` empty: the next automatic name of its kind.
  std::shared_ptr<coordinator::Completion> submit(coordinator::Entry entry);
  /// Notes collectives that run outside the coordinator thread.
  void count_collective(std::size_t bytes, std::size_t tensors);
  Counters counters() const;
  /// The next of the names "<prefix>.0", "<prefix>.1", ... of this rank.
  std::string automatic_name(std::string_view prefix);

  /// See Context::shutdown().
  void shut_down();
  /// Tells the others that this rank failed with an exception; nothing is waited for and nothing
  /// finalised. Does nothing after shut_down().
  void fail_unwinding() noexcept;

 private:
  // Agrees with the other ranks on settings, processors and what messages cost, and says where the
  // watchdogs meet. Collective.
  void meet();
  // Collective over the node.
  void start_watchdog();

  std::unique_ptr<Session> session_;
  std::unique_ptr<collectives::Transport> transport_;
  ParsedEnvironment environment_;
  Topology topology_;
  collectives::AllreduceSelection allreduce_;
  coordinator::ArenaTable arenas_;
  std::mutex shutdown_mutex_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  observe::RankActivity activity_;
  observe::RankActivity::Registration watched_;  // the coordinator
  std::unique_ptr<observe::LeaderHub> hub_;      // rank 0, until the watchdog has it
  observe::MeetingPoint meeting_point_;
  std::unique_ptr<observe::Watchdog> watchdog_;
  bool is_shutdown_begun_ = false;
  bool is_shut_down_ = false;  // in agreement with all ranks
  std::mutex names_mutex_;
  std::map<std::string, std::uint64_t> automatic_names_;  // how many of each prefix
  std::atomic<std::uint64_t> collectives_{0}, tensors_{0}, payload_bytes_{0};
};

/// How waits inside a job go: HORO_SPIN and HORO_TIMEOUT, without spinning where the node has more
/// ranks than the machine has processors.
WaitPolicy make_wait_policy(const Settings& settings, int local_size);

}  // namespace horo

#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "collectives/selection/allreduce_selection.h"
#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/base/home_process.h"
#include "horo/coordinator/arena_table.h"
#include "horo/coordinator/coordinator.h"
#include "horo/observe/state_source.h"
#include "horo/observe/watchdog.h"
#include "horo/open_sets.h"
#include "horo/plan_names.h"
#include "horo/rank_flight.h"
#include "horo/rank_metrics.h"

namespace horo {

/// What keeps MPI (or whatever carries the job) initialised.
class Session {
 public:
  virtual ~Session() = default;
  /// Until unwatch(): `before_finalize` runs if the program ends MPI itself, before MPI does;
  /// `at_exit` if the process exits, with its exit code; it may call finalize(). Called at most
  /// once.
  virtual void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit) = 0;
  virtual void unwatch() = 0;
  /// This rank has failed because another has: the process is to leave that one a moment to say why
  /// before it exits.
  virtual void exit_late() = 0;
  /// Whether finalize() is going to wait in MPI_Finalize for the other ranks.
  virtual bool is_last() = 0;
  /// Ends it in good order. Called once, when the transport is gone.
  virtual void finalize() = 0;
};

/// One rank's membership in a job: its transport, settings, coordinator and watchdog. Owns them and
/// takes them down in order. Thread-safe.
class Runtime {
 public:
  /// Collective. Throws MismatchError if the ranks' settings differ. `session` may be null.
  Runtime(std::unique_ptr<Session> session, std::unique_ptr<collectives::Transport> transport,
          ParsedEnvironment environment);
  /// That of a process set: `transport` is one of `parent`'s subsets. Collective over the set.
  Runtime(std::shared_ptr<Runtime> parent, std::unique_ptr<collectives::Transport> transport);
  /// In a child process of fork() it frees nothing and waits for nothing.
  ~Runtime();

  /// The process in which it can be used.
  const HomeProcess& home() const { return home_; }
  /// Throws ShutdownError in a child process of fork() and after MPI_Finalize.
  void require_usable() const;
  const Topology& topology() const { return topology_; }
  const Settings& settings() const { return environment_.settings; }
  collectives::Transport& transport() { return *transport_; }
  /// How communicators of this job choose among the allreduces over messages.
  const collectives::AllreduceSelection& allreduce() const { return allreduce_; }
  coordinator::ArenaTable& arenas() { return arenas_; }
  PlanNames& plan_names() { return plan_names_; }
  /// The rank's, which its process sets share.
  observe::FlightRecorder& recorder() {
    return parent_ == nullptr ? flight_->recorder() : parent_->recorder();
  }
  /// The rank's, which its process sets share; null unless HORO_METRICS is on.
  const std::shared_ptr<metrics::RankMeter>& meter() const {
    return parent_ == nullptr ? metrics_.meter() : parent_->meter();
  }
  /// The process sets made from this one.
  OpenSets& sets() { return sets_; }
  /// Null unless this is a process set.
  const std::shared_ptr<Runtime>& parent() const { return parent_; }

  /// `entry.request.name` empty: the next automatic name of its kind.
  std::shared_ptr<coordinator::Completion> submit(coordinator::Entry entry);
  /// The same, and waits for it.
  void perform(coordinator::Entry entry);
  /// The same for a task, which may refer to what is on the caller's stack: the coordinator's
  /// thread runs it. Throws InvalidArgument in a completion callback, before anything is submitted.
  void run_task(coordinator::Entry entry);
  /// Notes collectives that run outside the coordinator thread.
  void count_collective(std::size_t bytes, std::size_t tensors);
  Counters counters() const;
  /// The next of the names "<prefix>.0", "<prefix>.1", ... of this rank.
  std::string automatic_name(std::string_view prefix);
  /// 0, 1, ...: how often it was called with `what` before.
  std::uint64_t next_number(std::string_view what);

  /// See Context::shutdown(). After begin_shut_down(): waits for what that has begun.
  void shut_down();
  /// The same on a thread of its own, without waiting.
  void begin_shut_down();
  /// Whether a shutdown has ended, in agreement or not.
  bool is_closed() const { return is_closed_; }
  /// Tells the other ranks why this one, which has a failure to report, cannot go on: their waits
  /// and later operations end with CommunicationError and `why`, as this rank's own. Does not wait;
  /// does nothing once the job's shutdown has ended, or all ranks have agreed to it.
  void end_job(const std::string& why) noexcept;
  /// Tells the others that this rank failed with an exception; nothing is waited for and nothing
  /// finalised. Does nothing after shut_down().
  void fail_unwinding() noexcept;

 private:
  // Agrees with the other ranks on settings, processors, clocks and what messages cost, and says
  // where the watchdogs meet. Collective.
  JobClock meet();
  // Collective over the node.
  void start_watchdog();
  void close();
  void finish_sets();
  // How the text of a failure of this rank begins.
  std::string own_failure() const;
  // Whether the job's failure is another rank's.
  bool has_failed_after_another() const;
  void on_finalize() noexcept;
  void end_watch();
  void finalize();
  void on_exit(int exit_code) noexcept;
  void finalize_at_exit();

  const HomeProcess home_;
  const std::shared_ptr<Runtime> parent_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<collectives::Transport> transport_;
  // The recorder and the watchdog use it when the transport is gone too. Null in a process set.
  std::shared_ptr<AbortSignal> abort_signal_;
  ParsedEnvironment environment_;
  Topology topology_;
  collectives::AllreduceSelection allreduce_;
  coordinator::ArenaTable arenas_;
  PlanNames plan_names_;
  std::unique_ptr<RankFlight> flight_;  // null: of a process set
  RankMetrics metrics_;                 // of a process set: off
  std::mutex shutdown_mutex_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  OpenSets sets_;
  std::unique_ptr<std::jthread> closer_;  // of begin_shut_down()
  std::exception_ptr closing_error_;      // its outcome
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_finalised_{false};
  // Of a job of several ranks; null or empty in a process set.
  observe::MeetingPoint meeting_point_;
  std::unique_ptr<observe::LeaderHub> hub_;  // rank 0's, until the watchdog has it
  std::unique_ptr<collectives::SharedRegion> board_;
  std::unique_ptr<observe::StateSource> state_;
  std::unique_ptr<observe::Watchdog> watchdog_;
  bool is_shutdown_begun_ = false;
  std::atomic<bool> is_shut_down_{false};  // in agreement with all ranks
  std::mutex names_mutex_;
  std::map<std::string, std::uint64_t> numbers_;  // the next one of each name
  std::atomic<std::uint64_t> collectives_{0}, tensors_{0}, payload_bytes_{0};
};

/// Owns `runtime`. If the last owner lets go of it in a completion callback, another thread
/// destroys it: the thread of the callback is one of those that the destructor joins.
std::shared_ptr<Runtime> share(std::unique_ptr<Runtime> runtime);

/// How waits inside a job go: HORO_SPIN and HORO_TIMEOUT, without spinning where the node has more
/// ranks than the machine has processors.
WaitPolicy make_wait_policy(const Settings& settings, int local_size);

}  // namespace horo

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
#include "horo/base/system/home_process.h"
#include "horo/coordinator/coordinator.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/plan/mapped_gradients.h"
#include "horo/plan/plan_agreement.h"
#include "horo/runtime/open_sets.h"
#include "horo/runtime/rank_flight.h"
#include "horo/runtime/rank_metrics.h"
#include "horo/watchdog/watchdog.h"

namespace horo {

/// Keeps MPI initialized while a job runs. An interface, so that Runtime does not depend on MPI.
class Session {
 public:
  virtual ~Session() = default;
  /// Installs two functions until unwatch(). If the program calls MPI_Finalize, `before_finalize`
  /// runs before MPI ends. If the process exits, `at_exit` runs with the exit code, and may call
  /// finalize(). The caller must call watch() at most once.
  virtual void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit) = 0;
  virtual void unwatch() = 0;
  /// Delays the exit of this process for a moment. Called if this rank failed because another rank
  /// failed. The delay gives the other rank time to report the reason.
  virtual void exit_late() = 0;
  /// Whether finalize() will wait for the other ranks in MPI_Finalize.
  virtual bool is_last() = 0;
  /// Ends the session. If is_last(), also calls MPI_Finalize. Called at most once, after the
  /// transport is destroyed or when the process exits.
  virtual void finalize() = 0;
};

/// The membership of one rank in a job: its transport, settings, coordinator and watchdog. Owns
/// them and destroys them in a fixed order. Thread-safe.
class Runtime {
 public:
  /// Collective. Throws MismatchError if a setting that must be equal on all ranks differs.
  /// `session` is null if the job does not use MPI.
  Runtime(std::unique_ptr<Session> session, std::unique_ptr<collectives::Transport> transport,
          ParsedEnvironment environment);
  /// Makes the runtime of a process set: `transport` is a subset of `parent`'s. Collective over the
  /// set.
  Runtime(std::shared_ptr<Runtime> parent, std::unique_ptr<collectives::Transport> transport);
  /// In a child process of fork(), frees nothing and does not wait.
  ~Runtime();

  /// The process in which this object can be used.
  const HomeProcess& home() const { return home_; }
  /// Throws ShutdownError in a child process of fork() and after MPI_Finalize.
  void require_usable() const;
  const Topology& topology() const { return topology_; }
  const Settings& settings() const { return environment_.settings; }
  collectives::Transport& transport() { return *transport_; }
  /// The selection of the allreduce over messages for communicators of this job.
  const collectives::AllreduceSelection& allreduce() const { return allreduce_; }
  plan::ArenaTable& arenas() { return arenas_; }
  plan::PlanNames& plan_names() { return plan_names_; }
  /// The recorder of the rank, shared by its process sets.
  observe::FlightRecorder& recorder() {
    return parent_ == nullptr ? flight_->recorder() : parent_->recorder();
  }
  /// The metrics of the rank, shared by its process sets. Null unless HORO_METRICS is set.
  const std::shared_ptr<metrics::RankMeter>& meter() const {
    return parent_ == nullptr ? metrics_.meter() : parent_->meter();
  }
  /// The long waits of this rank, shared by its process sets. The coordinators and the plans of the
  /// rank add long waits, and the watchdog reads them.
  observe::LongWaits& long_waits() {
    return parent_ == nullptr ? long_waits_ : parent_->long_waits();
  }
  /// The process sets made from this runtime.
  OpenSets& sets() { return sets_; }
  /// Null unless this is a process set.
  const std::shared_ptr<Runtime>& parent() const { return parent_; }

  /// If `entry.request.name` is empty, assigns the next automatic name of its kind.
  std::shared_ptr<coordinator::Completion> submit(coordinator::Entry entry);
  /// Submits and waits. Meanwhile, the caller's thread may run rounds of the negotiation.
  void perform(coordinator::Entry entry);
  /// Submits a task and waits. The owner of the coordinator's rounds runs the task. The task may
  /// refer to the caller's stack, because this function waits. In a completion callback, throws
  /// InvalidArgument before it submits the task.
  void run_task(coordinator::Entry entry);
  /// Counts a collective that the coordinator does not run, such as the exchange of a bucket.
  void count_collective(std::size_t bytes, std::size_t tensors);
  Counters counters() const;
  /// The next of the names "<prefix>.0", "<prefix>.1", ... of this rank.
  std::string automatic_name(std::string_view prefix);
  /// Returns the number of earlier calls with `what`: 0, 1, and so on.
  std::uint64_t next_number(std::string_view what);

  /// See Context::shutdown(). After begin_shut_down(), waits for the shutdown that
  /// begin_shut_down() has started.
  void shut_down();
  /// Starts the same shutdown on a separate thread. Does not wait for other ranks.
  void begin_shut_down();
  /// Whether a shutdown has ended. This includes a shutdown that failed, for example because not
  /// all ranks took part.
  bool is_closed() const { return is_closed_; }
  /// Aborts the job because this rank has failed. The waits and later operations of all ranks end
  /// with CommunicationError and `why`. Does not wait. Does nothing after a shutdown of the job has
  /// ended, or after all ranks have agreed to shut down.
  void end_job(const std::string& why) noexcept;
  /// Aborts the job because this rank failed with an exception. Neither waits for the other ranks
  /// nor finalizes. Does nothing after shut_down() or begin_shut_down().
  void fail_unwinding() noexcept;

 private:
  // Agrees with the other ranks on settings, processors, clocks, the cost of messages and the
  // address of the watchdog hub. Collective.
  JobClock agree_on_job_config();
  // Collective over the node.
  void start_watchdog();
  void close();
  void finish_sets();
  // The first part of the text of a failure of this rank.
  std::string own_failure() const;
  // Whether another rank caused the failure of the job.
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
  // The recorder and the watchdog use the signal after the transport is destroyed. Null in a
  // process set.
  std::shared_ptr<AbortSignal> abort_signal_;
  ParsedEnvironment environment_;
  Topology topology_;
  collectives::AllreduceSelection allreduce_;
  plan::ArenaTable arenas_;
  plan::PlanNames plan_names_;
  std::unique_ptr<RankFlight> flight_;  // null in a process set
  RankMetrics metrics_;                 // off in a process set
  observe::LongWaits long_waits_;
  // A thread holds shutdown_mutex_ during shut_down(). shutdown_mutex_ guards is_shutdown_begun_
  // and close_thread_. A thread that holds it may lock the shutdown_mutex_ of a process set made
  // from this runtime, but not that of the parent.
  std::mutex shutdown_mutex_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  OpenSets sets_;
  std::unique_ptr<std::jthread> close_thread_;  // started by begin_shut_down()
  std::exception_ptr closing_error_;            // set by close_thread_, read after it is joined
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_finalised_{false};
  // The members for the watchdog, in a job of several ranks. They are null or empty in a process
  // set and in a job of one rank.
  observe::HubAddress hub_address_;
  std::unique_ptr<observe::LeaderHub> hub_;  // on rank 0, until the watchdog takes it
  std::unique_ptr<collectives::SharedRegion> heartbeat_memory_;
  std::unique_ptr<observe::SnapshotProvider> snapshots_;
  std::unique_ptr<observe::Watchdog> watchdog_;
  bool is_shutdown_begun_ = false;
  std::atomic<bool> is_shut_down_{false};         // all ranks have agreed to shut down
  std::mutex names_mutex_;                        // guards numbers_
  std::map<std::string, std::uint64_t> numbers_;  // the next number of each name
  std::atomic<std::uint64_t> collectives_{0}, tensors_{0}, payload_bytes_{0};
};

/// Makes `runtime` shared. If the last owner releases the runtime in a completion callback, another
/// thread destroys it, because the destructor joins the thread that runs the callback.
std::shared_ptr<Runtime> share(std::unique_ptr<Runtime> runtime);

/// The wait policy inside a job, from HORO_SPIN and HORO_TIMEOUT. Does not spin if the node has
/// more ranks than the machine has processors.
WaitPolicy make_wait_policy(const Settings& settings, int local_size);

}  // namespace horo

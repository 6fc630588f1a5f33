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
#include "horo/coordinator/messages/messenger.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/plan/gradients/mapped_gradients.h"
#include "horo/plan/plan_agreement.h"
#include "horo/runtime/device_queues.h"
#include "horo/runtime/open_sets.h"
#include "horo/runtime/rank_flight.h"
#include "horo/runtime/rank_metrics.h"
#include "horo/watchdog/watchdog.h"

namespace horo {

/// Keeps MPI initialised while a job runs. An interface, so that Runtime does not depend on MPI.
class Session {
 public:
  virtual ~Session() = default;
  /// Installs two functions until unwatch(). If the program calls MPI_Finalize, `before_finalize`
  /// runs before MPI ends. If the process exits, `at_exit` runs with the exit code, and may call
  /// finalize(). The caller must call watch() at most once.
  virtual void watch(std::function<void()> before_finalize, std::function<void(int)> at_exit) = 0;
  virtual void unwatch() = 0;
  /// If this process exits within a few seconds, delays its exit. Called if this rank failed
  /// because another rank failed. The delay gives the other rank time to report the reason.
  virtual void exit_late() = 0;
  /// Whether finalize() would now call MPI_Finalize, which waits for the other ranks.
  virtual bool is_last() = 0;
  /// Ends the session. If is_last(), also calls MPI_Finalize. Called at most once, after the
  /// transport is destroyed or when the process exits.
  virtual void finalize() = 0;
};

/// The membership of one rank in a job or a process set: its transport, settings and coordinator,
/// and for a job also its flight recorder, metrics and watchdog. Owns them and destroys them in a
/// fixed order. Thread-safe.
class Runtime {
 public:
  /// Collective. Throws MismatchError if a setting that must be equal on all ranks differs. See
  /// init() for other errors. `session` is null if the job does not use MPI.
  Runtime(std::unique_ptr<Session> session, std::unique_ptr<collectives::Transport> transport,
          ParsedEnvironment environment);
  /// Makes the runtime of a process set: `transport` is a subset of the transport of `parent`.
  /// Collective over the set.
  Runtime(std::shared_ptr<Runtime> parent, std::unique_ptr<collectives::Transport> transport);
  /// In a child process of fork(), leaks the transport, the session and the members that own
  /// threads, and does not wait.
  ~Runtime();

  /// The process in which this object can be used.
  const HomeProcess& home() const { return home_; }
  /// Throws ShutdownError in a child process of fork() and after the program has called
  /// MPI_Finalize.
  void require_usable() const;
  const Topology& topology() const { return topology_; }
  const Settings& settings() const { return environment_.settings; }
  collectives::Transport& transport() { return *transport_; }
  /// How the communicators of this job select an allreduce over messages.
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

  /// Submits an operation. If `entry.request.name` is empty, assigns the next automatic name of its
  /// kind. For `stream` and the errors, see DeviceQueues::prepare().
  coordinator::Submitted submit(coordinator::Entry entry, void* stream = nullptr);
  /// Submits an operation and waits until it has completed. An operation on tensors in host memory
  /// waits as Coordinator::perform() does. If the name is empty, assigns a name as submit() does.
  void perform(coordinator::Entry entry, void* stream = nullptr);
  /// The same for a message between two ranks.
  coordinator::Submitted submit(coordinator::MessageEntry entry);
  void perform(coordinator::MessageEntry entry);
  /// Submits a task, waits for it and throws its error. The owner of the coordinator's rounds runs
  /// the task. The task may refer to the caller's stack, because this function waits. In a
  /// completion callback, throws InvalidArgument before it submits the task.
  void run_task(coordinator::Entry entry);
  /// Counts a collective that the coordinator does not run, such as the exchange of a bucket.
  void count_collective(std::size_t bytes, std::size_t tensors);
  Counters counters() const;
  /// The next of the names "<prefix>.0", "<prefix>.1", ... of this runtime.
  std::string automatic_name(std::string_view prefix);
  /// Returns the number of earlier calls with `what`: 0, 1, and so on. automatic_name() counts as a
  /// call.
  std::uint64_t next_number(std::string_view what);

  /// See Context::shutdown(). After begin_shut_down(), waits for the shutdown that
  /// begin_shut_down() has started, and throws its error.
  void shut_down();
  /// Starts the same shutdown on a separate thread, unless a shutdown has begun. If another thread
  /// is in shut_down(), waits for that shutdown to end. Otherwise, does not wait for other ranks.
  void begin_shut_down();
  /// Whether a shutdown has ended. This includes a shutdown that failed, for example because
  /// another rank had failed.
  bool is_closed() const { return is_closed_; }
  /// Aborts the job because this rank has failed. The waits and later operations of all ranks end
  /// with CommunicationError. Its text is `why`, unless the job was aborted before. Does not wait.
  /// Does nothing after a shutdown of the job has ended, or after all ranks have agreed to shut
  /// down.
  void end_job(const std::string& why) noexcept;
  /// Aborts the job because this rank failed with an exception. Does not wait for the shutdown of
  /// the other ranks and does not finalize. Does nothing after shut_down() or begin_shut_down().
  void fail_unwinding() noexcept;

 private:
  // Agrees with the other ranks on settings, processors, clocks, the cost of messages and the
  // address of the watchdog hub. Collective.
  JobClock agree_on_job_config();
  // Collective.
  void start_watchdog();
  void close();
  void finish_sets();
  void name(coordinator::Entry& entry);
  // The first part of the text with which this rank reports its own failure.
  std::string own_failure() const;
  // Whether the job uses MPI and another rank has aborted it.
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
  // Shared, because the recorder and the watchdog use the signal after the transport is destroyed.
  // Null in a process set.
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
  // and close_thread_. Lock order: a thread that holds shutdown_mutex_ may lock that of a process
  // set made from this runtime, but not that of the parent.
  std::mutex shutdown_mutex_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<coordinator::Messenger> messenger_;
  DeviceQueues devices_{*this};
  OpenSets sets_;
  std::unique_ptr<std::jthread> close_thread_;  // started by begin_shut_down()
  std::exception_ptr closing_error_;            // set by close_thread_, read after it is joined
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> is_finalised_{false};
  // The members for the watchdog, in a job of several ranks. They are null or empty in a process
  // set and in a job of one rank.
  observe::HubAddress hub_address_;
  std::unique_ptr<observe::LeaderHub> hub_;  // on rank 0, until start_watchdog() moves it
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
/// thread destroys it. The destructor joins the coordinator's thread, which may be the thread that
/// runs the callback.
std::shared_ptr<Runtime> share(std::unique_ptr<Runtime> runtime);

/// The wait policy inside a job, from HORO_SPIN and HORO_TIMEOUT. `local_size` is the number of
/// ranks on the machine. If it exceeds the number of processors of the machine, waits do not spin.
WaitPolicy make_wait_policy(const Settings& settings, int local_size);

}  // namespace horo

#include "horo/runtime/runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/base/text/printable.h"
#include "horo/base/thread_error.h"
#include "horo/flight_recorder/recorded_state.h"
#include "horo/metrics/rank_meter.h"
#include "horo/runtime/core_binding.h"
#include "horo/runtime/job_agreement.h"

namespace horo {

namespace {

// Returns how much later a wait times out than the watchdog. The watchdog observes all ranks and
// decides when a job ends. A wait observes only one peer, which may itself be waiting. The timeout
// of a wait is for failures that the watchdog cannot observe.
std::chrono::nanoseconds watchdog_advantage(std::chrono::nanoseconds timeout) {
  using std::chrono::seconds;
  return std::clamp<std::chrono::nanoseconds>(timeout, seconds(1), seconds(10));
}
// An exception that unwinds the stack is assumed to be the latest error of its thread, unless that
// error is older than this. Other destructors may wait before the destructor of the Context runs.
constexpr auto kTimeToUnwind = std::chrono::seconds(10);

}  // namespace

std::shared_ptr<Runtime> share(std::unique_ptr<Runtime> runtime) {
  return {runtime.release(), [](Runtime* owned) {
            if (!coordinator::is_in_callback()) {
              delete owned;
              return;
            }
            try {
              std::thread([owned, label = log_label()] {
                set_log_label(label);
                delete owned;
              }).detach();
            } catch (const std::system_error& error) {
              log_error("cannot start a thread to release a Context's memory: {}", error.what());
            }
          }};
}

WaitPolicy make_wait_policy(const Settings& settings, int local_size) {
  WaitPolicy policy;
  policy.timeout = settings.timeout;
  policy.grace = watchdog_advantage(settings.timeout);
  policy.spin = settings.spin;
  // Uses the processors of the machine and not this rank's affinity, because the launcher may have
  // bound each rank.
  if (sysconf(_SC_NPROCESSORS_ONLN) < local_size) policy.spin = std::chrono::nanoseconds(0);
  return policy;
}

Runtime::Runtime(std::unique_ptr<Session> session,
                 std::unique_ptr<collectives::Transport> transport, ParsedEnvironment environment)
    : session_(std::move(session)),
      transport_(std::move(transport)),
      abort_signal_(transport_->abort_signal()),
      environment_(std::move(environment)),
      topology_(transport_->topology()),
      metrics_(environment_.settings.metrics_dir, topology_) {
  if (topology_.size == 1) metrics_.require_files();
  const JobClock clock = topology_.size > 1 ? agree_on_job_config() : own_clock();
  flight_ = std::make_unique<RankFlight>(environment_.settings.flight_dir, session_ != nullptr,
                                         clock, topology_, abort_signal_.get());
  try {
    metrics_.start(clock.job, recorder());
    coordinator_ = std::make_unique<coordinator::Coordinator>(
        *transport_, environment_.settings, allreduce_, recorder(),
        coordinator::Coordinator::kIdleInterval, &long_waits());
    messenger_ = std::make_unique<coordinator::Messenger>(*transport_, environment_.settings,
                                                          recorder(), &long_waits());
    if (topology_.size > 1) start_watchdog();
  } catch (const std::exception& error) {
    recorder().fail(fmt::format("{} failed in horo::init(): {}", topology_.describe(topology_.rank),
                                error.what()));
    if (session_ != nullptr && has_failed_after_another()) session_->exit_late();
    throw;
  }
  if (session_ != nullptr)
    session_->watch([this] { on_finalize(); }, [this](int exit_code) { on_exit(exit_code); });
}

Runtime::Runtime(std::shared_ptr<Runtime> parent, std::unique_ptr<collectives::Transport> transport)
    : parent_(std::move(parent)),
      transport_(std::move(transport)),
      environment_(parent_->environment_),
      topology_(transport_->topology()),
      allreduce_(parent_->allreduce_),
      coordinator_(std::make_unique<coordinator::Coordinator>(
          *transport_, environment_.settings, allreduce_, recorder(),
          coordinator::Coordinator::kIdleInterval, &long_waits())),
      messenger_(std::make_unique<coordinator::Messenger>(*transport_, environment_.settings,
                                                          recorder(), &long_waits())) {}

JobClock Runtime::agree_on_job_config() {
  auto peers = transport_->make_point_to_point();
  // The segment size is a constant, because the ranks have not compared their settings yet.
  collectives::RingCollectives ring(*peers, 64 * 1024);
  // `close_first` is destroyed before `ring`, because transfers that a failure has left open may
  // write to memory of `ring`. The destructor of PointToPoint ends these transfers.
  const auto close_first = std::move(peers);
  check_settings_agree(environment_, ring, topology_);
  metrics_.require_files(ring);
  // Does not bind ranks that are threads of one process, or ranks of emulated nodes, because these
  // nodes share the processors of a machine.
  if (session_ != nullptr && environment_.settings.binding == Binding::kAuto &&
      environment_.settings.ranks_per_node == 0)
    bind_to_own_cores(ring, topology_);
  allreduce_ = agree_on_allreduce(environment_.settings, *close_first, ring, topology_);
  const bool is_one_process = session_ == nullptr;
  std::tie(hub_address_, hub_) =
      agree_on_hub_address(ring, topology_, is_one_process, environment_.settings.interfaces);
  return agree_on_clock(*close_first, ring, topology_);
}

void Runtime::start_watchdog() {
  heartbeat_memory_ =
      transport_->make_node_region(observe::HeartbeatTable::bytes_for(topology_.local_size));
  snapshots_ = metrics_.measure(std::make_unique<observe::RecordedState>(recorder()));
  observe::WatchdogOptions options;
  options.stall_warning = settings().stall_warning;
  options.timeout = settings().timeout;
  options.abort = abort_signal_.get();
  options.long_waits = &long_waits_;
  if (meter() != nullptr && topology_.rank == 0)
    options.on_snapshots = [this](auto ranks) { metrics_.update_ranks(ranks); };
  options.raise_abort = [this](const std::string& text) { abort_signal_->raise(text); };
  options.end_process = [this](int code) {
    recorder().fail(abort_signal_->text());
    _exit(code);
  };
  watchdog_ =
      std::make_unique<observe::Watchdog>(topology_, *snapshots_, heartbeat_memory_->bytes(),
                                          std::move(hub_), hub_address_, std::move(options));
}

// The order matters. The watchdog refers to shared memory and to the recorder, the coordinator uses
// the transport, and the transport uses MPI. If finalize() is going to call MPI_Finalize, the
// watchdog outlives the transport, because the watchdog watches the wait in MPI_Finalize.
Runtime::~Runtime() {
  if (home_.is_elsewhere()) {
    // The child process has none of the threads and must not call MPI. Locks that another thread
    // held at the fork stay locked. So these members are leaked.
    (void)watchdog_.release();
    (void)heartbeat_memory_.release();
    (void)close_thread_.release();
    (void)coordinator_.release();
    (void)messenger_.release();
    devices_.leak();
    (void)transport_.release();
    (void)session_.release();
    (void)flight_.release();
    metrics_.forget();
    return;
  }
  const bool finalizes = is_shut_down_ && session_ != nullptr && session_->is_last();
  if (!finalizes) end_watch();
  if (session_ != nullptr) session_->unwatch();
  close_thread_.reset();
  coordinator_.reset();
  messenger_.reset();
  devices_.close();
  if (flight_ != nullptr)
    if (const std::string text = flight_->post_mortem_hint(); !text.empty()) log_error("{}", text);
  transport_.reset();
  // MPI_Finalize waits for the other ranks. If the ranks have not agreed to shut down, this rank
  // does not call it. The launcher ends the other ranks when this process ends.
  if (finalizes)
    finalize();
  else if (is_shut_down_ && session_ != nullptr)
    session_->finalize();
  if (flight_ == nullptr) return;
  flight_->release_process();
  if (is_shut_down_) flight_->end();
}

// The watchdog's thread may call metrics_.update_ranks(), so the watchdog ends before the metrics.
// Both must end before the objects that they use, such as the recorder.
void Runtime::end_watch() {
  watchdog_.reset();
  metrics_.end();
}

// MPI_Finalize has no timeout. The open record shows the watchdog which ranks have called
// MPI_Finalize, and the watchdog ends the job after HORO_TIMEOUT. The watchdog does not use MPI, so
// it may run during MPI_Finalize.
void Runtime::finalize() {
  {
    observe::FlightRecord record{};
    record.name = recorder().name(observe::kFinalizeName);
    record.kind = recorder().name(observe::kFinalizeKind);
    record.submitted = observe::flight_clock();
    observe::OpenFlight flight = recorder().open(record);
    session_->finalize();
    flight.finish(observe::flight_clock());
  }
  flight_->end();  // the last page of metrics includes this state
  end_watch();
}

std::string Runtime::automatic_name(std::string_view prefix) {
  return fmt::format("{}.{}", prefix, next_number(prefix));
}

std::uint64_t Runtime::next_number(std::string_view what) {
  const std::scoped_lock lock(names_mutex_);
  return numbers_[std::string(what)]++;
}

void Runtime::name(coordinator::Entry& entry) {
  if (entry.request.name.empty())
    entry.request.name = automatic_name(coordinator::name_of(entry.request.kind));
}

// Takes the name last, so that a rejected entry does not advance the numbers of automatic names.
coordinator::Submitted Runtime::submit(coordinator::Entry entry, void* stream) {
  devices_.prepare(entry, stream);
  name(entry);
  if (meter() != nullptr) entry.completion->measure(meter());
  std::shared_ptr<coordinator::DeviceOperation> on_device = entry.on_device;
  return {coordinator_->submit(std::move(entry)), std::move(on_device)};
}

void Runtime::run_task(coordinator::Entry entry) {
  coordinator::forbid_blocking_in_callbacks();
  submit(std::move(entry)).completion->wait();
}

void Runtime::perform(coordinator::Entry entry, void* stream) {
  coordinator::forbid_blocking_in_callbacks();  // before a name is taken
  devices_.prepare(entry, stream);
  name(entry);
  const metrics::Blocked blocked(meter().get());
  if (entry.on_device == nullptr) return coordinator_->perform(std::move(entry));
  const coordinator::Submitted submitted{entry.completion, entry.on_device};
  coordinator_->perform(std::move(entry));
  submitted.on_device->queue().wait(*submitted.on_device, *submitted.completion);
}

coordinator::Submitted Runtime::submit(coordinator::MessageEntry entry) {
  if (meter() != nullptr) entry.completion->measure(meter());
  return {messenger_->submit(std::move(entry)), nullptr};
}

void Runtime::perform(coordinator::MessageEntry entry) {
  const metrics::Blocked blocked(meter().get());
  messenger_->perform(std::move(entry));
}

void Runtime::count_collective(std::size_t bytes, std::size_t tensors) {
  collectives_.fetch_add(1, std::memory_order_relaxed);
  tensors_.fetch_add(tensors, std::memory_order_relaxed);
  payload_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

Counters Runtime::counters() const {
  Counters counters = coordinator_->counters();
  messenger_->count(counters);
  counters.collectives += collectives_;
  counters.tensors += tensors_;
  counters.payload_bytes += payload_bytes_;
  return counters;
}

void Runtime::require_usable() const {
  home_.require_home();
  const Runtime& job = parent_ == nullptr ? *this : *parent_;
  if (job.is_finalised_)
    throw ShutdownError("the program has called MPI_Finalize: horo cannot be used after it");
  if (&job != this) job.require_usable();
}

// shutdown_mutex_ is held during the whole shutdown, so a second caller waits for the first caller.
// The thread of begin_shut_down() does not lock shutdown_mutex_, so shut_down() can join that
// thread under the lock.
void Runtime::shut_down() {
  coordinator::forbid_blocking_in_callbacks();
  const std::scoped_lock lock(shutdown_mutex_);
  if (!std::exchange(is_shutdown_begun_, true)) return close();
  if (close_thread_ == nullptr) return;
  close_thread_.reset();
  if (closing_error_ != nullptr)
    std::rethrow_exception(std::exchange(closing_error_, std::exception_ptr()));
}

// The shutdown waits for the other members of a process set, so a separate thread runs it.
void Runtime::begin_shut_down() {
  const std::scoped_lock lock(shutdown_mutex_);
  if (std::exchange(is_shutdown_begun_, true)) return;
  close_thread_ = std::make_unique<std::jthread>([this, label = log_label()] {
    set_log_label(label);
    try {
      close();
    } catch (...) {
      closing_error_ = std::current_exception();
    }
  });
}

void Runtime::finish_sets() {
  try {
    sets_.finish();
  } catch (const std::exception& error) {
    log_debug("a process set was not closed in agreement: {}", error.what());
  }
}

void Runtime::close() {
  // Starts to close the sets first. Otherwise another member might wait for this rank in an
  // operation of a set, and would not submit the shutdown of the job before that operation ends.
  sets_.begin_closing();
  messenger_->begin_closing();
  try {
    coordinator_->shut_down();
    messenger_->end(coordinator::make_shutdown_error());
    devices_.close();
    is_shut_down_ = true;
  } catch (const std::exception& error) {
    recorder().fail(error.what());
    messenger_->end(std::current_exception());
    if (has_failed_after_another()) session_->exit_late();
    devices_.close();
    finish_sets();
    is_closed_ = true;
    throw;
  }
  finish_sets();
  // If finalize() is going to call MPI_Finalize, the recorder stays open until then, because it
  // shows whether this rank has called MPI_Finalize.
  if (flight_ != nullptr && (session_ == nullptr || !session_->is_last())) flight_->end();
  // Flushes now, because the process may end without destroying this object.
  metrics_.flush(settings().timeout);
  is_closed_ = true;
}

// All ranks must call MPI_Finalize, so they can shut down in agreement here. Plans do not take part
// in this agreement, so the abort ends an exchange that is still in flight.
void Runtime::on_finalize() noexcept {
  try {
    bool is_late = false;
    {
      const std::scoped_lock lock(shutdown_mutex_);
      is_late = !is_shutdown_begun_;
    }
    if (is_late) {
      log_warning(
          "the program calls MPI_Finalize before horo is shut down: call Context::shutdown(), or "
          "destroy the Context, before MPI_Finalize");
      shut_down();
      transport_->abort("the program has called MPI_Finalize");
    }
  } catch (const std::exception& error) {
    log_error("cannot shut horo down in MPI_Finalize: {}", error.what());
  }
  is_finalised_ = true;
}

// Other threads of the program may still run, so this thread must not wait for them. This thread
// must not use a log label either, because the label may have been destroyed.
void Runtime::on_exit(int exit_code) noexcept {
  if (home_.is_elsewhere()) return;
  try {
    if (is_closed_) {
      if (is_shut_down_ && exit_code == 0) finalize_at_exit();
      return;
    }
    const std::string text =
        fmt::format("{} exited with code {} without calling Context::shutdown()",
                    topology_.describe(topology_.rank), exit_code);
    recorder().fail(text);
    std::fprintf(stderr, "horo: %s\n", printable(text).c_str());
    transport_->abort(text.c_str());
  } catch (const std::exception&) {  // NOLINT: the process ends, and mpirun then ends the job
  }
}

// mpirun fails a job whose processes exit without MPI_Finalize. So this function finalizes if the
// program has shut down but has not destroyed the Context. A failed rank does not finalize, because
// it must not wait for the other ranks.
void Runtime::finalize_at_exit() {
  if (session_->is_last()) return finalize();
  session_->finalize();
  flight_->end();
}

void Runtime::end_job(const std::string& why) noexcept {
  // Checks the runtime of the job and not that of this set, because a plan may exist longer than
  // its process set. A failure of the plan must still abort the job.
  const Runtime* job = this;
  while (job->parent_ != nullptr) job = job->parent_.get();
  if (job->is_shut_down_ || job->is_closed_) return;
  recorder().fail(why);
  transport_->abort(why.c_str());
}

std::string Runtime::own_failure() const {
  return fmt::format("{} failed", topology_.describe(topology_.rank));
}

bool Runtime::has_failed_after_another() const {
  const AbortSignal* abort = transport_->wait_policy().abort;
  return session_ != nullptr && abort != nullptr && abort->is_raised() &&
         !abort->text().starts_with(own_failure());
}

// Called while an exception leaves the scope of the Context. The other ranks may wait for this
// rank, so this function aborts the job before it waits for anything.
void Runtime::fail_unwinding() noexcept {
  try {
    const std::scoped_lock lock(shutdown_mutex_);
    if (std::exchange(is_shutdown_begun_, true)) return;
    std::string text = own_failure() + " with an exception";
    std::string error = latest_thread_error(kTimeToUnwind);
    if (error.empty()) error = recorder().last_error();
    if (!error.empty()) text += fmt::format("; its last error: {}", error);
    recorder().fail(text);
    coordinator_->fail(text);
    messenger_->end(std::make_exception_ptr(CommunicationError(text)));
    if (has_failed_after_another()) session_->exit_late();
    sets_.begin_closing();
    finish_sets();
  } catch (const std::exception& error) {
    log_error("could not notify the other ranks of a failure: {}", error.what());
  }
}

}  // namespace horo

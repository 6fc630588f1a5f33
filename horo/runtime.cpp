#include "horo/runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <tuple>
#include <utility>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/log.h"
#include "horo/link_figures.h"
#include "horo/placement.h"
#include "horo/settings_check.h"
#include "horo/watch_meeting.h"

namespace horo {

namespace {

// By which the watchdog, who knows why, is before the deadlines of the waits themselves.
constexpr auto kWatchdogAdvantage = std::chrono::seconds(1);

}  // namespace

WaitPolicy make_wait_policy(const Settings& settings, int local_size) {
  WaitPolicy policy;
  policy.timeout = settings.timeout;
  policy.grace = kWatchdogAdvantage;
  policy.spin = settings.spin;
  // Of the machine, not of this rank's affinity: mpirun may have given each rank its own.
  if (sysconf(_SC_NPROCESSORS_ONLN) < local_size) policy.spin = std::chrono::nanoseconds(0);
  return policy;
}

Runtime::Runtime(std::unique_ptr<Session> session,
                 std::unique_ptr<collectives::Transport> transport, ParsedEnvironment environment)
    : session_(std::move(session)),
      transport_(std::move(transport)),
      environment_(std::move(environment)),
      topology_(transport_->topology()),
      activity_(topology_) {
  if (topology_.size > 1) meet();
  coordinator_ =
      std::make_unique<coordinator::Coordinator>(*transport_, environment_.settings, allreduce_);
  watched_ =
      activity_.add([this](observe::RankSnapshot& snapshot) { coordinator_->add_to(snapshot); });
  if (topology_.size > 1) start_watchdog();
}

void Runtime::meet() {
  auto peers = transport_->make_point_to_point();
  // Its parameters are fixed: it must work before any setting is known to be agreed.
  collectives::RingCollectives ring(*peers, 64 * 1024);
  // Transfers that a failure left open end before the memory that they write to.
  const auto close_first = std::move(peers);
  check_settings_agree(environment_, ring, topology_);
  // Ranks that are threads of one process have no processors of their own.
  if (session_ != nullptr && environment_.settings.binding == Binding::kAuto &&
      environment_.settings.ranks_per_node == 0)
    keep_to_own_processors(ring, topology_);
  allreduce_ = agree_on_allreduce(environment_.settings, *close_first, ring, topology_);
  const bool is_one_process = session_ == nullptr;
  std::tie(meeting_point_, hub_) = agree_on_meeting_point(ring, topology_, is_one_process);
}

void Runtime::start_watchdog() {
  observe::WatchdogOptions options;
  options.stall_warning = settings().stall_warning;
  options.timeout = settings().timeout;
  options.abort = transport_->wait_policy().abort;
  options.raise_abort = [this](const std::string& text) { transport_->abort(text.c_str()); };
  options.sees_all_ranks = [this](bool sees_all) { coordinator_->set_watched(sees_all); };
  watchdog_ = std::make_unique<observe::Watchdog>(
      topology_, activity_,
      transport_->make_node_region(observe::PulseBoard::bytes_for(topology_.local_size)),
      std::move(hub_), meeting_point_, std::move(options));
}

Runtime::~Runtime() {
  watchdog_.reset();
  watched_.reset();
  coordinator_.reset();
  transport_.reset();
  // Finalising waits for the other ranks; without their consent the process just ends, and the
  // launcher ends theirs.
  if (is_shut_down_ && session_) session_->finalize();
}

std::string Runtime::automatic_name(std::string_view prefix) {
  const std::scoped_lock lock(names_mutex_);
  return fmt::format("{}.{}", prefix, automatic_names_[std::string(prefix)]++);
}

std::shared_ptr<coordinator::Completion> Runtime::submit(coordinator::Entry entry) {
  if (entry.request.name.empty())
    entry.request.name = automatic_name(coordinator::name_of(entry.request.kind));
  return coordinator_->submit(std::move(entry));
}

void Runtime::count_collective(std::size_t bytes, std::size_t tensors) {
  collectives_.fetch_add(1, std::memory_order_relaxed);
  tensors_.fetch_add(tensors, std::memory_order_relaxed);
  payload_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

Counters Runtime::counters() const {
  Counters counters = coordinator_->counters();
  counters.collectives += collectives_;
  counters.tensors += tensors_;
  counters.payload_bytes += payload_bytes_;
  return counters;
}

void Runtime::shut_down() {
  const std::scoped_lock lock(shutdown_mutex_);
  if (std::exchange(is_shutdown_begun_, true)) return;
  coordinator_->shut_down();
  is_shut_down_ = true;
}

void Runtime::fail_unwinding() noexcept {
  try {
    const std::scoped_lock lock(shutdown_mutex_);
    if (std::exchange(is_shutdown_begun_, true)) return;
    coordinator_->fail(
        fmt::format("{} failed with an exception", topology_.describe(topology_.rank)));
    activity_.fail("failed with an exception");
  } catch (const std::exception& error) {
    log_error("could not tell the other ranks of a failure: {}", error.what());
  }
}

}  // namespace horo

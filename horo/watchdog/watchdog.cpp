#include "horo/watchdog/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "horo/base/system/futex.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"
#include "horo/diagnosis/rank_format.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds kLongestInterval = 500ms;
constexpr nanoseconds kShortestInterval = 10ms;
constexpr nanoseconds kShortestSilence = 3s;
// If a round starts later than planned by this time, the thread is assumed to have been suspended,
// possibly with the whole machine.
constexpr nanoseconds kSuspensionThreshold = 2s;
// The usual limit of the time from stall_warning to a report, in intervals; see
// watchdog_interval().
constexpr int kIntervalsToVerdict = 4;
// The recorded start of a gradient exchange may be later than the start by the time between two
// snapshots.
constexpr nanoseconds kStartTimeError = 500ms;

// A node that is cut off from rank 0 considers rank 0 silent. Rank 0's watchdog can determine which
// node is cut off, so it should decide first.
nanoseconds extra_timeout_for(const Topology& topology, const WatchdogOptions& options) {
  return topology.node == 0 ? 0ns : std::clamp<nanoseconds>(options.timeout / 4, 200ms, 3s);
}

std::vector<RankSnapshot> ranks_of_node(const Topology& topology) {
  std::vector<RankSnapshot> ranks;
  for (const int rank : topology.ranks_of(topology.node)) {
    RankSnapshot& known = ranks.emplace_back();
    known.rank = rank;
    known.host = topology.host_of[static_cast<std::size_t>(topology.node)];
  }
  return ranks;
}

WatchdogOptions with_defaults(WatchdogOptions options) {
  if (!options.log) options.log = [](const std::string& text) { log_warning("{}", text); };
  if (!options.end_process) options.end_process = [](int code) { _exit(code); };
  return options;
}

}  // namespace

// Short timeouts, as in tests, need shorter intervals.
nanoseconds watchdog_interval(const WatchdogOptions& options) {
  return std::clamp(std::min(options.stall_warning, options.timeout) / 8, kShortestInterval,
                    kLongestInterval);
}

Watchdog::Watchdog(const Topology& topology, SnapshotProvider& source,
                   std::span<std::byte> table_memory, std::unique_ptr<LeaderHub> hub,
                   const HubAddress& hub_address, WatchdogOptions options)
    : topology_(topology),
      source_(source),
      options_(with_defaults(std::move(options))),
      interval_(watchdog_interval(options_)),
      silent_after_(std::max(options_.stall_warning, kShortestSilence)),
      table_(table_memory, topology.local_rank, topology.local_size),
      node_watch_(table_, silent_after_, ranks_of_node(topology)),
      policy_(options_.stall_warning, options_.timeout, extra_timeout_for(topology, options_)),
      hub_(std::move(hub)),
      client_(hub_address, topology.node, topology.local_size),
      is_node_lost_(static_cast<std::size_t>(topology.node_count), false),
      thread_([this, label = log_label()] { run(label); }) {}

// The destructor of thread_, the last member, joins the thread while all other members exist.
// Before the thread ends, it calls leave(), which publishes this rank's last state.
Watchdog::~Watchdog() {
  should_stop_ = 1;
  futex_wake_all(should_stop_);
}

// Sleeps on should_stop_, so that the destructor does not wait for the rest of an interval.
void Watchdog::run(const std::string& log_label) noexcept {
  try {
    set_log_label(log_label);
    while (should_stop_ == 0) {
      tick();
      futex_wait(should_stop_, 0, interval_);
    }
    leave();
  } catch (const std::exception& error) {
    log_error("the watchdog of this rank has ended: {}", error.what());
  }
}

// Runs one round. Publishes this rank's state before the evaluation, so that the evaluation does
// not delay the heartbeat of this round.
void Watchdog::tick() {
  const Now now{std::chrono::steady_clock::now(), wall_time_now()};
  if (!started_) started_ = now;
  handle_own_suspension(now);
  RankSnapshot own = source_.snapshot();
  own.has_overdue_wait = options_.abort != nullptr && options_.abort->has_overdue_wait(now.steady);
  table_.publish(own);
  exit_if_stuck(own, now);
  evaluate_or_report(now);
  report_long_waits(now);
}

// Only the leader of a node evaluates the snapshots or reports them to rank 0.
void Watchdog::evaluate_or_report(const Now& now) {
  if (!node_watch_.is_leader(now.steady)) return hand_over(now);
  std::vector<RankSnapshot> ranks = node_watch_.snapshots(now.steady);
  if (hub_ != nullptr)
    run_hub(std::move(ranks), now);
  else if (topology_.node > 0)
    report_to_hub(std::move(ranks), now);
  else
    evaluate(std::move(ranks), now);
}

// Publishes the last state of this rank. On the rank with the hub, the hub sends its last status to
// all nodes. On another leader, the client sends the states of the node to the hub. If the client
// has received the last status of the hub, this rank records that for the node, because a later
// leader cannot receive it any more.
void Watchdog::leave() {
  RankSnapshot own = source_.snapshot();
  own.liveness = Liveness::kEnded;
  table_.publish(own);
  table_.leave();
  if (hub_ != nullptr) table_.mark_hub_shut_down();
  const Now now{std::chrono::steady_clock::now(), wall_time_now()};
  if (!node_watch_.is_leader(now.steady)) return;
  const bool is_told_by_signal = end_reason_.empty() && is_abort_raised();
  const std::string reason = is_told_by_signal ? options_.abort->text() : end_reason_;
  if (hub_ != nullptr)
    hub_->exchange({reason, true, policy_.is_paused(), false}, now.steady, now.wall);
  else
    client_.exchange({now.wall, reason, node_watch_.snapshots(now.steady)}, now.steady);
  if (client_.has_hub_left()) table_.mark_hub_shut_down();
}

// If this thread did not run, because its process or the whole machine was suspended, old
// heartbeats and reports do not show whether other ranks are alive. A step of the wall clock is
// handled in the same way, because snapshots contain wall times.
void Watchdog::handle_own_suspension(const Now& now) {
  const nanoseconds gap(now.wall - last_tick_);
  const bool is_first = last_tick_ == 0;
  last_tick_ = now.wall;
  if (is_first || (gap > -kSuspensionThreshold && gap < interval_ + kSuspensionThreshold)) return;
  policy_.restart_timers(now.wall);
  node_watch_.restart_timers(now.steady);
  client_.restart_timers(now.steady);
  if (hub_ != nullptr) hub_->restart_timers(now.steady);
}

bool Watchdog::is_abort_raised() const {
  return options_.abort != nullptr && options_.abort->is_raised();
}

// Waits inside horo end when the abort signal is raised. So an operation that was open at that
// time, and is still open after stuck_after, is assumed to be blocked inside another library.
// Operations that were submitted later are skipped, because they end by themselves.
void Watchdog::exit_if_stuck(const RankSnapshot& own, const Now& now) {
  if (!is_abort_raised()) return;
  if (abort_seen_at_ == 0) {
    abort_seen_ = now.steady;
    abort_seen_at_ = now.wall;
  }
  if (now.steady - abort_seen_ < options_.stuck_after) return;
  for (const OpenOperation& operation : own.open) {
    if (operation.submitted > abort_seen_at_ + kStartTimeError.count()) continue;
    log_error("{}{}{} '{}'; its process ends now, with exit code {}", options_.abort->text(),
              kEndOfReason, operation.kind, operation.name, kStuckExitCode);
    options_.end_process(kStuckExitCode);
    return;
  }
}

void Watchdog::run_hub(std::vector<RankSnapshot> ranks, const Now& now) {
  hub_->exchange({end_reason_, false, policy_.is_paused(), sees_all_}, now.steady, now.wall);
  add_other_nodes(ranks, now);
  report_lost_nodes(ranks);
  const bool is_ending = !end_reason_.empty();
  evaluate(std::move(ranks), now);
  // The reason is sent at once, because this process may end soon.
  if (!is_ending && !end_reason_.empty())
    hub_->exchange({end_reason_, false, policy_.is_paused(), sees_all_}, now.steady, now.wall);
}

// The ranks of a node that no longer reports count as silent, except those that had left the job
// and had no open operation.
void Watchdog::add_other_nodes(std::vector<RankSnapshot>& ranks, const Now& now) {
  for (const LeaderHub::NodeStatus& status : hub_->nodes()) {
    if (!status.report) continue;
    if (!status.report->end_reason.empty()) abort_job(status.report->end_reason);
    for (RankSnapshot rank : status.report->ranks) {
      const bool is_silent = now.steady - status.received_at > silent_after_;
      const bool has_gone = rank.liveness == Liveness::kEnded && rank.open.empty();
      if (is_silent && !has_gone) rank.liveness = Liveness::kSilent;
      ranks.push_back(std::move(rank));
    }
  }
}

void Watchdog::report_lost_nodes(const std::vector<RankSnapshot>& ranks) {
  for (std::size_t node = 1; node < is_node_lost_.size(); ++node) {
    const bool is_silent = std::any_of(ranks.begin(), ranks.end(), [&](const RankSnapshot& rank) {
      return rank.liveness == Liveness::kSilent && rank.rank >= 0 && rank.rank < topology_.size &&
             topology_.node_of[static_cast<std::size_t>(rank.rank)] == static_cast<int>(node);
    });
    const bool is_lost = is_silent && !hub_->nodes()[node].is_connected;
    if (is_lost && !is_node_lost_[node] && end_reason_.empty())
      options_.log(
          fmt::format("the connection to the watchdog of node {} (host {}) is lost: the leader of "
                      "the node has ended, or the network has failed",
                      node, topology_.host_of[node]));
    is_node_lost_[node] = is_lost;
  }
}

// While messages of the hub arrive, rank 0 evaluates the ranks of this node too, and this leader
// hands over. Otherwise this leader evaluates the ranks of its node. If messages of the hub have
// arrived before, it adds rank 0 as a silent rank.
void Watchdog::report_to_hub(std::vector<RankSnapshot> ranks, const Now& now) {
  if (table_.has_hub_left()) return evaluate_without_hub(std::move(ranks), now);
  client_.exchange({now.wall, is_abort_raised() ? options_.abort->text() : std::string(), ranks},
                   now.steady);
  if (!client_.end_reason().empty()) return abort_job(client_.end_reason());
  if (client_.has_hub_left()) {
    table_.mark_hub_shut_down();
    return evaluate_without_hub(std::move(ranks), now);
  }
  if (client_.is_paused()) excuse_waits(now);
  const auto received = client_.last_received();
  if (received && now.steady - *received <= silent_after_) {
    if (client_.hub_sees_all_ranks()) extend_watch(now);
    return hand_over(now);
  }
  if (received) {
    RankSnapshot hub;
    hub.host = topology_.host_of[0];
    hub.liveness = Liveness::kSilent;
    hub.last_sign_of_life = now.wall - nanoseconds(now.steady - *received).count();
    ranks.insert(ranks.begin(), hub);
  } else if (!is_node_leaving(ranks)) {
    report_unreachable_hub(now);
  }
  evaluate(std::move(ranks), now);
}

// Called after rank 0 has left the job. No watchdog has snapshots of all ranks any more, so this
// leader evaluates the ranks of its node and rank 0, which it adds as a rank that has left.
void Watchdog::evaluate_without_hub(std::vector<RankSnapshot> ranks, const Now& now) {
  RankSnapshot hub;
  hub.host = topology_.host_of[0];
  hub.liveness = Liveness::kEnded;
  hub.taken = now.wall;
  hub.last_sign_of_life = now.wall;
  ranks.insert(ranks.begin(), hub);
  evaluate(std::move(ranks), now);
}

// If a rank of the node has left, the whole job may be shutting down, so an unreachable hub is not
// reported. The previous leader may have left before it received the hub's last status.
bool Watchdog::is_node_leaving(const std::vector<RankSnapshot>& ranks) const {
  return std::ranges::find(ranks, Liveness::kEnded, &RankSnapshot::liveness) != ranks.end();
}

void Watchdog::report_unreachable_hub(const Now& now) {
  if (has_reported_unreachable_hub_ || !client_.first_attempt() || !client_.has_tried_all() ||
      now.steady - *client_.first_attempt() <= options_.time_to_find_hub)
    return;
  has_reported_unreachable_hub_ = true;
  options_.log(fmt::format(
      "the watchdog of node {} (host {}) cannot connect to that of rank 0 (host {}): each "
      "reports only the ranks that it can observe",
      topology_.node, topology_.host_of[static_cast<std::size_t>(topology_.node)],
      topology_.host_of[0]));
}

void Watchdog::evaluate(std::vector<RankSnapshot> ranks, const Now& now) {
  sees_all_ = ranks.size() == static_cast<std::size_t>(topology_.size);
  if (sees_all_) extend_watch(now);
  if (options_.on_snapshots) options_.on_snapshots(ranks);
  if (is_abort_raised()) return abort_job(options_.abort->text());
  const std::vector<RankSnapshot> others = unknown_ranks(ranks, now);
  const StallPolicy::Decision decision = policy_.evaluate(std::move(ranks), now.wall, others);
  if (policy_.is_paused()) excuse_waits(now);
  if (policy_.explains_waits()) table_.explain_waits(now.steady + silent_after_);
  if (decision.warning) options_.log(*decision.warning);
  if (decision.notice) options_.log(*decision.notice);
  if (decision.abort_reason) abort_job(*decision.abort_reason);
}

std::vector<RankSnapshot> Watchdog::unknown_ranks(const std::vector<RankSnapshot>& known,
                                                  const Now& now) const {
  std::vector<RankSnapshot> others;
  if (sees_all_) return others;
  // After rank 0 has left, this rank receives no state of other nodes. The ranks of these nodes may
  // still run, so they do not count as silent.
  const bool is_silent = !table_.has_hub_left() && now.steady - started_->steady > silent_after_;
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (std::ranges::find(known, rank, &RankSnapshot::rank) != known.end()) continue;
    RankSnapshot& other = others.emplace_back();
    other.rank = rank;
    other.host =
        topology_
            .host_of[static_cast<std::size_t>(topology_.node_of[static_cast<std::size_t>(rank)])];
    other.liveness = is_silent ? Liveness::kSilent : Liveness::kRunning;
    other.last_sign_of_life = started_->wall;
  }
  return others;
}

// Called in each round in which the watchdog of a lower local rank, or of rank 0, evaluates the
// ranks.
void Watchdog::hand_over(const Now& now) {
  if (const auto over = policy_.hand_over(now.wall)) options_.log(*over);
}

// Logs nothing after an abort, while a watchdog has snapshots of all ranks, or while a leader of
// this node has declared that the waits are explained. Several ranks of the node may note the same
// wait, for example for the update of a plan. claim_report() selects the rank that logs the wait.
void Watchdog::report_long_waits(const Now& now) {
  if (options_.long_waits == nullptr || options_.abort == nullptr || is_abort_raised() ||
      options_.abort->is_watched(now.steady) || table_.are_waits_explained(now.steady))
    return;
  for (const LongWaits::Wait& wait : policy_.unexplained_waits(
           options_.long_waits->current(now.steady), now.wall, kIntervalsToVerdict * interval_))
    if (table_.claim_report(wait.name, now.steady, policy_.repeat_interval()))
      options_.log(wait.text);
}

void Watchdog::excuse_waits(const Now& now) {
  if (options_.abort != nullptr) options_.abort->excuse_waits(now.steady);
}

// Called in every round in which a watchdog has snapshots of all ranks. If no further round
// follows, the declaration ends after silent_after_.
void Watchdog::extend_watch(const Now& now) {
  if (options_.abort != nullptr) options_.abort->watch_until(now.steady + silent_after_);
}

void Watchdog::abort_job(const std::string& reason) {
  if (!end_reason_.empty()) return;
  end_reason_ = reason;
  if (options_.raise_abort) options_.raise_abort(reason);
}

}  // namespace horo::observe

#include "horo/observe/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "horo/base/futex.h"
#include "horo/base/log.h"
#include "horo/base/quantity.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds kLongestInterval = 500ms;
constexpr nanoseconds kShortestInterval = 10ms;
constexpr nanoseconds kShortestSilence = 3s;
// By how much a round may be late before the thread, and perhaps its machine, must have been
// asleep.
constexpr nanoseconds kOwnSleep = 2s;
// What is known of when an exchange began comes from looking now and then.
constexpr nanoseconds kTimeToBeNoted = 500ms;

// Short settings, as of tests, are watched with more rounds.
nanoseconds interval_for(const WatchdogOptions& options) {
  return std::clamp(std::min(options.stall_warning, options.timeout) / 8, kShortestInterval,
                    kLongestInterval);
}

// A node that is cut off from rank 0 takes rank 0 for silent, and its end of the job may reach
// other nodes by the connections of ranks: rank 0's watchdog, which sees those, is to decide first.
nanoseconds lateness_of(const Topology& topology, const WatchdogOptions& options) {
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
  if (!options.say) options.say = [](const std::string& text) { log_warning("{}", text); };
  if (!options.end_process) options.end_process = [](int code) { _exit(code); };
  return options;
}

}  // namespace

Watchdog::Watchdog(const Topology& topology, StateSource& source, std::span<std::byte> board_memory,
                   std::unique_ptr<LeaderHub> hub, const MeetingPoint& point,
                   WatchdogOptions options)
    : topology_(topology),
      source_(source),
      options_(with_defaults(std::move(options))),
      interval_(interval_for(options_)),
      silent_after_(std::max(options_.stall_warning, kShortestSilence)),
      board_(board_memory, topology.local_rank, topology.local_size),
      node_watch_(board_, silent_after_, ranks_of_node(topology)),
      judge_(options_.stall_warning, options_.timeout, lateness_of(topology, options_)),
      hub_(std::move(hub)),
      client_(point, topology.node, topology.local_size),
      is_node_lost_(static_cast<std::size_t>(topology.node_count), false),
      thread_([this, label = log_label()] { run(label); }) {}

Watchdog::~Watchdog() {
  should_stop_ = 1;
  futex_wake_all(should_stop_);
}

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

void Watchdog::tick() {
  const Now now{std::chrono::steady_clock::now(), wall_time_now()};
  if (!begun_) begun_ = now;
  note_own_sleep(now);
  const RankSnapshot own = source_.snapshot();
  board_.publish(own);
  end_if_stuck(own, now);
  if (!node_watch_.is_speaker(now.steady)) return resign(now);
  std::vector<RankSnapshot> ranks = node_watch_.look(now.steady);
  if (hub_ != nullptr)
    lead(std::move(ranks), now);
  else if (topology_.node > 0)
    report(std::move(ranks), now);
  else
    judge(std::move(ranks), now);
}

// The last round of a rank that goes: what it says now is all that the others will know.
void Watchdog::leave() {
  RankSnapshot own = source_.snapshot();
  own.liveness = Liveness::kEnded;
  board_.publish(own);
  board_.leave();
  if (hub_ != nullptr) board_.note_that_hub_has_left();
  const Now now{std::chrono::steady_clock::now(), wall_time_now()};
  if (!node_watch_.is_speaker(now.steady)) return;
  const bool is_told_by_signal = end_reason_.empty() && is_abort_raised();
  const std::string reason = is_told_by_signal ? options_.abort->text() : end_reason_;
  if (hub_ != nullptr)
    hub_->exchange({reason, true, judge_.is_paused(), false}, now.steady, now.wall);
  else
    client_.exchange({now.wall, reason, node_watch_.look(now.steady)}, now.steady);
  if (client_.has_hub_left()) board_.note_that_hub_has_left();
}

// Time in which this thread did not run, because its process or the whole machine was stopped, says
// nothing of the others.
void Watchdog::note_own_sleep(const Now& now) {
  const nanoseconds gap(now.wall - last_tick_);
  const bool is_first = last_tick_ == 0;
  last_tick_ = now.wall;
  if (is_first || (gap > -kOwnSleep && gap < interval_ + kOwnSleep)) return;
  judge_.start_anew(now.wall);
  node_watch_.start_anew(now.steady);
  client_.start_anew(now.steady);
  if (hub_ != nullptr) hub_->start_anew(now.steady);
}

bool Watchdog::is_abort_raised() const {
  return options_.abort != nullptr && options_.abort->is_raised();
}

// All waits of horo end when the signal is raised: an operation that does not is inside some
// library that knows nothing of it.
void Watchdog::end_if_stuck(const RankSnapshot& own, const Now& now) {
  if (!is_abort_raised()) return;
  if (abort_seen_at_ == 0) {
    abort_seen_ = now.steady;
    abort_seen_at_ = now.wall;
  }
  if (now.steady - abort_seen_ < options_.stuck_after) return;
  for (const OpenOperation& operation : own.open) {
    if (operation.submitted > abort_seen_at_ + kTimeToBeNoted.count()) continue;
    log_error("{}; this rank is stuck in {} '{}', so its process ends now, with exit code {}",
              options_.abort->text(), operation.kind, operation.name, kStuckExitCode);
    options_.end_process(kStuckExitCode);
    return;
  }
}

void Watchdog::lead(std::vector<RankSnapshot> ranks, const Now& now) {
  hub_->exchange({end_reason_, false, judge_.is_paused(), sees_all_}, now.steady, now.wall);
  add_other_nodes(ranks, now);
  tell_lost_nodes(ranks);
  const bool is_ending = !end_reason_.empty();
  judge(std::move(ranks), now);
  // Without delay, as this process may be gone soon.
  if (!is_ending && !end_reason_.empty())
    hub_->exchange({end_reason_, false, judge_.is_paused(), sees_all_}, now.steady, now.wall);
}

void Watchdog::add_other_nodes(std::vector<RankSnapshot>& ranks, const Now& now) {
  for (const LeaderHub::News& news : hub_->news()) {
    if (!news.report) continue;
    if (!news.report->end_reason.empty()) order_end(news.report->end_reason);
    for (RankSnapshot rank : news.report->ranks) {
      const bool is_silent = now.steady - news.heard > silent_after_;
      const bool has_gone = rank.liveness == Liveness::kEnded && rank.open.empty();
      if (is_silent && !has_gone) rank.liveness = Liveness::kSilent;
      ranks.push_back(std::move(rank));
    }
  }
}

void Watchdog::tell_lost_nodes(const std::vector<RankSnapshot>& ranks) {
  for (std::size_t node = 1; node < is_node_lost_.size(); ++node) {
    const bool is_silent = std::any_of(ranks.begin(), ranks.end(), [&](const RankSnapshot& rank) {
      return rank.liveness == Liveness::kSilent && rank.rank >= 0 && rank.rank < topology_.size &&
             topology_.node_of[static_cast<std::size_t>(rank.rank)] == static_cast<int>(node);
    });
    const bool is_lost = is_silent && !hub_->news()[node].is_connected;
    if (is_lost && !is_node_lost_[node] && end_reason_.empty())
      options_.say(
          fmt::format("the connection to the watchdog of node {} (host {}) is lost: the rank that "
                      "spoke for the "
                      "node is gone, or the network between is",
                      node, topology_.host_of[node]));
    is_node_lost_[node] = is_lost;
  }
}

void Watchdog::report(std::vector<RankSnapshot> ranks, const Now& now) {
  if (board_.has_hub_left()) return judge_without_hub(std::move(ranks), now);
  client_.exchange({now.wall, is_abort_raised() ? options_.abort->text() : std::string(), ranks},
                   now.steady);
  if (!client_.end_reason().empty()) return order_end(client_.end_reason());
  if (client_.has_hub_left()) {
    board_.note_that_hub_has_left();
    return judge_without_hub(std::move(ranks), now);
  }
  if (client_.is_paused()) excuse_waits(now);
  const auto heard = client_.last_heard();
  if (heard && now.steady - *heard <= silent_after_) {
    if (client_.does_hub_see_all()) note_that_all_are_seen(now);
    return resign(now);
  }
  if (heard) {
    RankSnapshot hub;
    hub.host = topology_.host_of[0];
    hub.liveness = Liveness::kSilent;
    hub.last_sign_of_life = now.wall - nanoseconds(now.steady - *heard).count();
    ranks.insert(ranks.begin(), hub);
  } else if (!is_node_leaving(ranks)) {
    tell_that_hub_is_out_of_reach(now);
  }
  judge(std::move(ranks), now);
}

// Rank 0 has left in good order, so that nobody sees all ranks any more.
void Watchdog::judge_without_hub(std::vector<RankSnapshot> ranks, const Now& now) {
  RankSnapshot hub;
  hub.host = topology_.host_of[0];
  hub.liveness = Liveness::kEnded;
  hub.taken = now.wall;
  hub.last_sign_of_life = now.wall;
  ranks.insert(ranks.begin(), hub);
  judge(std::move(ranks), now);
}

// Whoever spoke for the node before may have gone without having heard that rank 0 goes too.
bool Watchdog::is_node_leaving(const std::vector<RankSnapshot>& ranks) const {
  return std::ranges::find(ranks, Liveness::kEnded, &RankSnapshot::liveness) != ranks.end();
}

void Watchdog::tell_that_hub_is_out_of_reach(const Now& now) {
  if (has_told_that_hub_is_out_of_reach_ || !client_.first_try() || !client_.has_tried_all() ||
      now.steady - *client_.first_try() <= options_.time_to_find_hub)
    return;
  has_told_that_hub_is_out_of_reach_ = true;
  options_.say(fmt::format(
      "the watchdog of node {} (host {}) cannot reach that of rank 0 (host {}) over TCP: each "
      "speaks of the ranks that it sees",
      topology_.node, topology_.host_of[static_cast<std::size_t>(topology_.node)],
      topology_.host_of[0]));
}

void Watchdog::judge(std::vector<RankSnapshot> ranks, const Now& now) {
  sees_all_ = ranks.size() == static_cast<std::size_t>(topology_.size);
  if (sees_all_) note_that_all_are_seen(now);
  if (options_.on_look) options_.on_look(ranks);
  if (is_abort_raised()) return order_end(options_.abort->text());
  const std::vector<RankSnapshot> others = unheard(ranks, now);
  const StallJudge::Decision decision = judge_.look(std::move(ranks), now.wall, others);
  if (judge_.is_paused()) excuse_waits(now);
  if (decision.say) options_.say(*decision.say);
  if (decision.note) options_.say(*decision.note);
  if (decision.end) order_end(*decision.end);
}

std::vector<RankSnapshot> Watchdog::unheard(const std::vector<RankSnapshot>& heard,
                                            const Now& now) const {
  std::vector<RankSnapshot> others;
  if (sees_all_) return others;
  // Those that are out of sight since rank 0 has left may be well.
  const bool is_silent = !board_.has_hub_left() && now.steady - begun_->steady > silent_after_;
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (std::ranges::find(heard, rank, &RankSnapshot::rank) != heard.end()) continue;
    RankSnapshot& other = others.emplace_back();
    other.rank = rank;
    other.host =
        topology_
            .host_of[static_cast<std::size_t>(topology_.node_of[static_cast<std::size_t>(rank)])];
    other.liveness = is_silent ? Liveness::kSilent : Liveness::kRunning;
    other.last_sign_of_life = begun_->wall;
  }
  return others;
}

// Whom this rank stood in for is there again.
void Watchdog::resign(const Now& now) {
  if (const auto over = judge_.resign(now.wall)) options_.say(*over);
}

void Watchdog::excuse_waits(const Now& now) {
  if (options_.abort != nullptr) options_.abort->excuse_waits(now.steady);
}

// Until the next rounds, or as long as it takes to miss this rank.
void Watchdog::note_that_all_are_seen(const Now& now) {
  if (options_.abort != nullptr) options_.abort->watch_until(now.steady + silent_after_);
}

void Watchdog::order_end(const std::string& reason) {
  if (!end_reason_.empty()) return;
  end_reason_ = reason;
  if (options_.raise_abort) options_.raise_abort(reason);
}

}  // namespace horo::observe

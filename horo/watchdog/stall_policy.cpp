#include "horo/watchdog/stall_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "horo/base/text/quantity.h"
#include "horo/base/wait.h"
#include "horo/diagnosis/diagnose.h"
#include "horo/diagnosis/missing_operations.h"
#include "horo/diagnosis/rank_format.h"
#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {
namespace {

using Kind = Verdict::Kind;
using std::chrono::nanoseconds;

// An operation that a dead, failed, stopped or silent rank blocks is reported when other ranks have
// waited for stall_warning_ divided by this number.
constexpr int kSettledAfter = 3;
constexpr WallTime kNanosecondsPerByte = 100;  // an assumed minimum bandwidth of 10 MB/s

// Verdicts of the kinds in the next two functions do not depend on how long other ranks have
// waited. A stopped or silent rank may continue, but a dead or failed rank cannot.
bool is_process_state(Kind kind) { return kind == Kind::kStopped || kind == Kind::kSilent; }
bool is_final(Kind kind) { return kind == Kind::kDead || kind == Kind::kFailed; }
bool is_unhealthy(const RankSnapshot& rank) {
  return !rank.failure.empty() ||
         (rank.liveness != Liveness::kRunning && rank.liveness != Liveness::kEnded);
}

// A verdict kLate may become kMissing when the wait is longer. Both are then about the same stall.
bool is_same(Kind a, Kind b) {
  const auto is_awaited = [](Kind kind) { return kind == Kind::kMissing || kind == Kind::kLate; };
  return a == b || (is_awaited(a) && is_awaited(b));
}

// Returns the verdict of diagnose() if it is about a dead, failed, stopped or silent rank, or if
// ranks have waited for longer than `stall_after`. diagnose() also reports ranks that are a little
// late. Such a report is useful at the end of a job, but not while the job runs.
Verdict find_stall(const std::vector<RankSnapshot>& ranks, WallTime now, nanoseconds stall_after) {
  Verdict verdict = diagnose(ranks, now, stall_after);
  if (is_final(verdict.kind) || is_process_state(verdict.kind)) return verdict;
  const bool is_stall = !find_missing(ranks, now, stall_after).empty() ||
                        !find_unfinished(ranks, now, stall_after).empty();
  return is_stall ? verdict : Verdict{};
}

// Counts on how many ranks each open operation has started.
class Exchanges {
 public:
  explicit Exchanges(const std::vector<RankSnapshot>& ranks) : rank_count_(ranks.size()) {
    for (const RankSnapshot& rank : ranks)
      for (const OpenOperation& operation : rank.open)
        if (operation.started != 0) ++ranks_in_[{operation.process_set, operation.name}];
  }

  // A named operation starts only when no rank is missing in it, so it needs no count.
  bool has_begun_everywhere(const OpenOperation& operation) const {
    if (operation.started == 0 || !is_of_plan(operation)) return operation.started != 0;
    const auto members = members_of(operation.process_set);
    return ranks_in_.at({operation.process_set, operation.name}) ==
           (members ? members->size() : rank_count_);
  }

 private:
  std::size_t rank_count_;
  std::map<std::pair<std::string, std::string>, std::size_t> ranks_in_;
};

// On a slow link, each message of an exchange is assumed to arrive within HORO_TIMEOUT. So an
// overdue wait is a stall, however large the exchange is.
bool may_be_slow_link(const std::vector<RankSnapshot>& ranks) {
  return std::ranges::none_of(ranks, &RankSnapshot::has_overdue_wait);
}

// Adds the time that a slow link needs for an exchange to its time of submission, if all its ranks
// have started it. The exchange then does not count as a stall during that time.
void allow_for_slow_links(std::vector<RankSnapshot>& ranks) {
  if (!may_be_slow_link(ranks)) return;
  const Exchanges exchanges(ranks);
  for (RankSnapshot& rank : ranks)
    for (OpenOperation& operation : rank.open)
      if (exchanges.has_begun_everywhere(operation))
        operation.submitted += static_cast<WallTime>(operation.bytes) * kNanosecondsPerByte;
}

// Members may close a process set at different times, so the members that have not closed it are
// not late.
bool is_of_closing_set(const OpenOperation& operation) {
  return operation.kind == kShutdownKind && !operation.process_set.empty();
}

// An empty set name means all ranks. Returns false if the name does not list the members.
bool is_of_set(int rank, const std::string& process_set) {
  if (process_set.empty()) return true;
  const auto members = members_of(process_set);
  return members && std::ranges::find(*members, rank) != members->end();
}

bool is_of_ranks(const Verdict& verdict, const std::vector<RankSnapshot>& ranks) {
  return !verdict.blamed.empty() && std::ranges::all_of(verdict.blamed, [&](int blamed) {
    return std::ranges::find(ranks, blamed, &RankSnapshot::rank) != ranks.end();
  });
}

}  // namespace

StallPolicy::StallPolicy(nanoseconds stall_warning, nanoseconds timeout, nanoseconds extra_timeout)
    : stall_warning_(std::min(stall_warning, timeout)),
      timeout_(timeout),
      extra_timeout_(extra_timeout) {}

void StallPolicy::restart_timers(WallTime now) {
  counted_from_ = resumed_at_ = now;
  if (reported_.kind != Kind::kNone) reported_.since = now;
}

// Returns those of `unknown_ranks` that are members of an operation in which a known rank has
// waited for longer than `lasting`. Returns none if a known rank is missing in an operation, unless
// that rank itself waits for an unknown rank: it has an operation open in which no known rank is
// missing and of which the unknown rank is a member. It is not known which exchanges the unknown
// ranks have started, so the allowance for slow links applies to every exchange that the waiting
// rank has started.
std::vector<RankSnapshot> StallPolicy::possible_blockers(
    const std::vector<RankSnapshot>& ranks, std::span<const RankSnapshot> unknown_ranks,
    WallTime now, nanoseconds lasting) const {
  const bool allows = may_be_slow_link(ranks);
  const auto is_awaited = [&](const OpenOperation& open, int rank) {
    const WallTime slow_link =
        allows && open.started != 0 ? static_cast<WallTime>(open.bytes) * kNanosecondsPerByte : 0;
    return now - open.submitted > lasting.count() + slow_link && is_of_set(rank, open.process_set);
  };
  const std::vector<MissingOperation> found = find_missing(ranks, now, stall_warning_);
  // find_missing() merges operations of one kind with the same ranks. The entry has the first name.
  const auto waits_for_known = [&](const OpenOperation& open, int rank) {
    return std::ranges::any_of(found, [&](const MissingOperation& missing) {
      if (missing.operation.process_set != open.process_set) return false;
      return missing.operation.name == open.name ||
             (missing.others > 0 && missing.operation.kind == open.kind &&
              std::ranges::binary_search(missing.waiting, rank));
    });
  };
  const auto waits_for_unknown = [&](const RankSnapshot& rank) {
    return std::ranges::any_of(rank.open, [&](const OpenOperation& open) {
      return !waits_for_known(open, rank.rank) &&
             std::ranges::any_of(unknown_ranks, [&](const RankSnapshot& other) {
               return is_awaited(open, other.rank);
             });
    });
  };
  for (const MissingOperation& missing : found)
    for (const int number : missing.missing)
      if (!waits_for_unknown(*std::ranges::find(ranks, number, &RankSnapshot::rank))) return {};
  std::vector<RankSnapshot> blockers;
  for (const RankSnapshot& other : unknown_ranks) {
    const bool may_block = std::ranges::any_of(ranks, [&](const RankSnapshot& rank) {
      return std::ranges::any_of(
          rank.open, [&](const OpenOperation& open) { return is_awaited(open, other.rank); });
    });
    if (may_block) blockers.push_back(other);
  }
  return blockers;
}

StallPolicy::Decision StallPolicy::evaluate(std::vector<RankSnapshot> ranks, WallTime now,
                                            std::span<const RankSnapshot> unknown_ranks) {
  if (has_ended_) return {};
  auto notice = pause_notice(ranks, now);
  if (!notice) notice = callback_notice(ranks, now);
  Decision decision = decide(std::move(ranks), now, unknown_ranks);
  decision.notice = std::move(notice);
  return decision;
}

// The work inside a pause may hang, for example on a file system that does not respond.
std::optional<std::string> StallPolicy::pause_notice(const std::vector<RankSnapshot>& ranks,
                                                     WallTime now) {
  if (now - resumed_at_ < timeout_.count()) return std::nullopt;
  const std::string text = describe_pauses(ranks, now, timeout_);
  const bool is_reported = pause_reported_ != 0 && now - pause_reported_ < timeout_.count();
  if (text.empty()) pause_reported_ = 0;
  if (text.empty() || is_reported) return std::nullopt;
  pause_reported_ = now;
  return text + " (timeouts are suspended during a pause)";
}

// Reports a long callback even if no other rank waits, because other operations of the same rank
// may wait.
std::optional<std::string> StallPolicy::callback_notice(const std::vector<RankSnapshot>& ranks,
                                                        WallTime now) {
  if (now - resumed_at_ < stall_warning_.count()) return std::nullopt;
  std::string text = describe_callbacks(ranks, now, stall_warning_);
  const bool is_reported = callback_reported_ != 0 && now - callback_reported_ < timeout_.count();
  if (text.empty()) callback_reported_ = 0;
  if (text.empty() || is_reported) return std::nullopt;
  callback_reported_ = now;
  return text;
}

// `delay` gives a verdict time to be logged first. A verdict is more useful, because it also has
// the last activity of the missing ranks.
std::vector<LongWaits::Wait> StallPolicy::unexplained_waits(std::span<const LongWaits::Wait> waits,
                                                            WallTime now, nanoseconds delay) {
  const WallTime interval = repeat_interval().count();
  std::erase_if(waits_reported_, [&](const auto& item) { return now - item.second >= interval; });
  std::vector<LongWaits::Wait> due;
  if (explains_waits()) return due;
  for (const LongWaits::Wait& wait : waits)
    if (wait.age >= stall_warning_ + delay && waits_reported_.try_emplace(wait.name, now).second)
      due.push_back(wait);
  return due;
}

// The state of a process takes precedence over a stall, and a known rank over unknown ranks. The
// allowance for slow links is added after the states of processes have been checked, because it
// applies to stalls only.
StallPolicy::Decision StallPolicy::decide(std::vector<RankSnapshot> ranks, WallTime now,
                                          std::span<const RankSnapshot> unknown_ranks) {
  discount_suspension(ranks, now);
  Verdict verdict;
  if (std::ranges::any_of(ranks, is_unhealthy)) verdict = diagnose(ranks, now, stall_warning_);
  if (!is_final(verdict.kind) && !is_process_state(verdict.kind)) {
    allow_for_slow_links(ranks);
    verdict = find_stall(ranks, now, stall_warning_);
  }
  std::vector<RankSnapshot> blockers;
  if (!is_final(verdict.kind) && !is_process_state(verdict.kind))
    blockers = possible_blockers(ranks, unknown_ranks, now, stall_warning_);
  bool is_timed_out = false;
  if (!blockers.empty()) {
    // Until unknown ranks are silent, they may still start to report.
    if (blockers[0].liveness != Liveness::kSilent) return {};
    is_timed_out = !possible_blockers(ranks, unknown_ranks, now, timeout_ + extra_timeout_).empty();
    ranks.insert(ranks.end(), blockers.begin(), blockers.end());
    verdict = find_stall(ranks, now, stall_warning_);
  }
  if (verdict.kind == Kind::kNone) return {hand_over(now), std::nullopt};
  if (!is_confirmed(verdict, ranks, now)) return {};
  Decision decision;
  if (!matches(reported_, verdict))
    reported_ = {
        verdict.kind, verdict.blamed, describe_ranks(verdict.blamed, ranks), candidate_.since, 0,
        {},           false};
  if (is_report_due(verdict, now)) {
    reported_.last_reported = now;
    reported_.awaited = verdict.awaited;
    decision.warning = verdict.text;
  }
  if (is_of_ranks(verdict, blockers) ? is_timed_out : ends_job(verdict, ranks, now)) {
    has_ended_ = true;
    decision.abort_reason =
        is_final(verdict.kind) ? verdict.text : with_timeout(verdict.text, timeout_);
  }
  return decision;
}

// A dead, failed, stopped or silent rank is reported at once. At that time, other ranks may not
// wait for that rank yet, or may wait in an operation that they can still finish. So an operation
// in which they have waited for stall_warning / kSettledAfter is reported once more, unless it is
// the operation in the last report.
bool StallPolicy::is_report_due(const Verdict& verdict, WallTime now) {
  const bool is_settled =
      !verdict.awaited.empty() && now - std::max(verdict.awaited_since, reported_.since) >=
                                      stall_warning_.count() / kSettledAfter;
  const bool is_new_wait =
      is_settled && !reported_.is_wait_reported && verdict.awaited != reported_.awaited;
  reported_.is_wait_reported |= is_settled;
  return reported_.last_reported == 0 || is_new_wait ||
         now - reported_.last_reported >= repeat_interval().count();
}

bool StallPolicy::matches(const ReportedStall& reported, const Verdict& verdict) {
  return is_same(verdict.kind, reported.kind) && verdict.blamed == reported.blamed;
}

// Snapshots of different ranks are not taken at the same time. A rank that has finished an
// operation seems to be missing if an older snapshot of another rank still contains the operation.
// Therefore a stall is confirmed only by newer snapshots of all running ranks with open operations,
// and only if the verdict is on the same operation again. If a long queue makes progress, each
// verdict is on another operation and is not confirmed.
bool StallPolicy::is_confirmed(const Verdict& verdict, const std::vector<RankSnapshot>& ranks,
                               WallTime now) {
  if (!matches(candidate_, verdict) || candidate_.operation != verdict.operation)
    candidate_ = {verdict.kind, verdict.blamed, {}, now, 0, {}, false, verdict.operation};
  if (is_final(verdict.kind) || is_process_state(verdict.kind)) return true;
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankSnapshot& rank) {
    const bool may_wait = rank.liveness == Liveness::kRunning && !rank.open.empty();
    return !may_wait || rank.taken == 0 || rank.taken > candidate_.since;
  });
}

// Time before counted_from_ and time in which a running rank is in a pause do not count as waiting.
// A wait in join() counts from the last time at which any rank finished an operation.
void StallPolicy::discount_suspension(std::vector<RankSnapshot>& ranks, WallTime now) {
  is_paused_ = std::any_of(ranks.begin(), ranks.end(), [](const RankSnapshot& rank) {
    return !rank.pause.empty() && rank.liveness == Liveness::kRunning;
  });
  if (is_paused_) counted_from_ = now;
  WallTime last_finished = 0;
  for (const RankSnapshot& rank : ranks)
    last_finished = std::max(last_finished, rank.last_finished_at);
  for (RankSnapshot& rank : ranks) {
    std::erase_if(rank.open, is_of_closing_set);
    for (OpenOperation& operation : rank.open) {
      operation.submitted = std::max(operation.submitted, counted_from_);
      if (operation.kind == kJoinKind)
        operation.submitted = std::max(operation.submitted, last_finished);
      if (operation.started != 0) operation.started = std::max(operation.started, counted_from_);
    }
  }
}

// The timeout for silent ranks counts from their last heartbeat, because other ranks may have
// waited for them since then.
WallTime StallPolicy::silent_since(const Verdict& verdict,
                                   const std::vector<RankSnapshot>& ranks) const {
  WallTime since = std::max(counted_from_, resumed_at_);
  for (const RankSnapshot& rank : ranks)
    if (std::ranges::find(verdict.blamed, rank.rank) != verdict.blamed.end())
      since = std::max(since, rank.last_sign_of_life);
  return since;
}

bool StallPolicy::ends_job(const Verdict& verdict, const std::vector<RankSnapshot>& ranks,
                           WallTime now) const {
  // A rank that has left (kEnded) cannot submit the awaited operation any more.
  if (is_final(verdict.kind) || verdict.kind == Kind::kEnded) return true;
  if (verdict.kind == Kind::kSilent)
    return now - silent_since(verdict, ranks) >= (timeout_ + extra_timeout_).count();
  if (verdict.kind == Kind::kStopped) return now - reported_.since >= timeout_.count();
  return find_stall(ranks, now, timeout_).kind != Kind::kNone;
}

std::optional<std::string> StallPolicy::hand_over(WallTime now) {
  const ReportedStall reported = std::exchange(reported_, {});
  candidate_ = {};
  if (reported.last_reported == 0 || has_ended_) return std::nullopt;
  return fmt::format("{} no longer block{} the others, after {}", reported.ranks_text,
                     reported.blamed.size() == 1 ? "s" : "",
                     format_duration(nanoseconds(now - reported.since)));
}

}  // namespace horo::observe

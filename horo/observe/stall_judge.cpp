#include "horo/observe/stall_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "horo/base/quantity.h"
#include "horo/observe/diagnose.h"
#include "horo/observe/first_failure.h"
#include "horo/observe/flight_file.h"
#include "horo/observe/missing_operations.h"
#include "horo/observe/pauses.h"
#include "horo/observe/rank_words.h"

namespace horo::observe {
namespace {

using Kind = Verdict::Kind;
using std::chrono::nanoseconds;

constexpr int kRepeatAfter = 4;                // stall warnings
constexpr int kSettledAfter = 3;               // parts of one
constexpr WallTime kNanosecondsPerByte = 100;  // 10 MB/s

// Seen on the process itself; how long anybody has waited does not matter.
bool is_of_the_process(Kind kind) { return kind == Kind::kStopped || kind == Kind::kSilent; }
bool is_final(Kind kind) { return kind == Kind::kDead || kind == Kind::kFailed; }
bool is_in_trouble(const RankSnapshot& rank) {
  return !rank.failure.empty() ||
         (rank.liveness != Liveness::kRunning && rank.liveness != Liveness::kEnded);
}

// To be late is to be missing for not so long.
bool is_same(Kind a, Kind b) {
  const auto is_awaited = [](Kind kind) { return kind == Kind::kMissing || kind == Kind::kLate; };
  return a == b || (is_awaited(a) && is_awaited(b));
}

// What diagnose() says, without what is no stall yet: at the end of a job it is of interest who was
// a little late, while it runs it is not.
Verdict find_stall(const std::vector<RankSnapshot>& ranks, WallTime now, nanoseconds stall_after) {
  Verdict verdict = diagnose(ranks, now, stall_after);
  if (is_final(verdict.kind) || is_of_the_process(verdict.kind)) return verdict;
  const bool is_stall = !find_missing(ranks, now, stall_after).empty() ||
                        !find_unfinished(ranks, now, stall_after).empty();
  return is_stall ? verdict : Verdict{};
}

/// Which exchanges all ranks are in.
class Exchanges {
 public:
  explicit Exchanges(const std::vector<RankSnapshot>& ranks) : rank_count_(ranks.size()) {
    for (const RankSnapshot& rank : ranks)
      for (const OpenOperation& operation : rank.open)
        if (operation.started != 0) ++ranks_in_[{operation.process_set, operation.name}];
  }

  // A named operation begins only when all have submitted it.
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

// What a slow link takes for an exchange that has begun is nobody's stall.
void allow_for_slow_links(std::vector<RankSnapshot>& ranks) {
  const Exchanges exchanges(ranks);
  for (RankSnapshot& rank : ranks)
    for (OpenOperation& operation : rank.open)
      if (exchanges.has_begun_everywhere(operation))
        operation.submitted += static_cast<WallTime>(operation.bytes) * kNanosecondsPerByte;
}

// A rank closes a process set whenever it likes, and need not wait for it.
bool is_of_closing_set(const OpenOperation& operation) {
  return operation.kind == kShutdownKind && !operation.process_set.empty();
}

// As far as the set's name says; empty: all ranks.
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

StallJudge::StallJudge(nanoseconds stall_warning, nanoseconds timeout, nanoseconds ends_later)
    : stall_warning_(std::min(stall_warning, timeout)),
      timeout_(timeout),
      ends_later_(ends_later) {}

void StallJudge::start_anew(WallTime now) {
  not_before_ = woken_ = now;
  if (told_.kind != Kind::kNone) told_.since = now;
}

// If ranks are in an operation without going on, and none of those seen keeps them: the members
// among `unheard` of what has lasted longer than `lasting`. Whether an exchange has begun
// everywhere is not known then.
std::vector<RankSnapshot> StallJudge::possible_keepers(const std::vector<RankSnapshot>& ranks,
                                                       std::span<const RankSnapshot> unheard,
                                                       WallTime now, nanoseconds lasting) const {
  std::vector<RankSnapshot> keepers;
  if (!find_missing(ranks, now, stall_warning_).empty()) return keepers;
  const auto is_awaited = [&](const OpenOperation& open, int rank) {
    const WallTime slow_link =
        open.started == 0 ? 0 : static_cast<WallTime>(open.bytes) * kNanosecondsPerByte;
    return now - open.submitted > lasting.count() + slow_link && is_of_set(rank, open.process_set);
  };
  for (const RankSnapshot& other : unheard) {
    const bool may_keep = std::ranges::any_of(ranks, [&](const RankSnapshot& rank) {
      return std::ranges::any_of(
          rank.open, [&](const OpenOperation& open) { return is_awaited(open, other.rank); });
    });
    if (may_keep) keepers.push_back(other);
  }
  return keepers;
}

StallJudge::Decision StallJudge::look(std::vector<RankSnapshot> ranks, WallTime now,
                                      std::span<const RankSnapshot> unheard) {
  if (has_ended_) return {};
  auto note = note_pauses(ranks, now);
  if (!note) note = note_callbacks(ranks, now);
  Decision decision = decide(std::move(ranks), now, unheard);
  decision.note = std::move(note);
  return decision;
}

// What a pause does may hang itself, as on a file system that does not answer.
std::optional<std::string> StallJudge::note_pauses(const std::vector<RankSnapshot>& ranks,
                                                   WallTime now) {
  if (now - woken_ < timeout_.count()) return std::nullopt;
  const std::string text = describe_pauses(ranks, now, timeout_);
  const bool is_told = pause_told_ != 0 && now - pause_told_ < timeout_.count();
  if (text.empty()) pause_told_ = 0;
  if (text.empty() || is_told) return std::nullopt;
  pause_told_ = now;
  return text + " (for information: no deadline passes in a pause)";
}

// Whether others wait for the rank does not matter: its own operations do.
std::optional<std::string> StallJudge::note_callbacks(const std::vector<RankSnapshot>& ranks,
                                                      WallTime now) {
  if (now - woken_ < stall_warning_.count()) return std::nullopt;
  std::string text = describe_callbacks(ranks, now, stall_warning_);
  const bool is_told = callback_told_ != 0 && now - callback_told_ < timeout_.count();
  if (text.empty()) callback_told_ = 0;
  if (text.empty() || is_told) return std::nullopt;
  callback_told_ = now;
  return text;
}

StallJudge::Decision StallJudge::decide(std::vector<RankSnapshot> ranks, WallTime now,
                                        std::span<const RankSnapshot> unheard) {
  forgive(ranks, now);
  Verdict verdict;
  if (std::ranges::any_of(ranks, is_in_trouble)) verdict = diagnose(ranks, now, stall_warning_);
  if (!is_final(verdict.kind) && !is_of_the_process(verdict.kind)) {
    allow_for_slow_links(ranks);
    verdict = find_stall(ranks, now, stall_warning_);
  }
  std::vector<RankSnapshot> keepers;
  if (!is_final(verdict.kind) && !is_of_the_process(verdict.kind))
    keepers = possible_keepers(ranks, unheard, now, stall_warning_);
  bool keeps_too_long = false;
  if (!keepers.empty()) {
    if (keepers[0].liveness != Liveness::kSilent) return {};
    keeps_too_long = !possible_keepers(ranks, unheard, now, timeout_ + ends_later_).empty();
    ranks.insert(ranks.end(), keepers.begin(), keepers.end());
    verdict = find_stall(ranks, now, stall_warning_);
  }
  if (verdict.kind == Kind::kNone) return {resign(now), std::nullopt};
  if (!is_confirmed(verdict, ranks, now)) return {};
  Decision decision;
  if (!is_of(told_, verdict))
    told_ = {verdict.kind, verdict.blamed, describe_ranks(verdict.blamed, ranks), seen_.since, 0,
             {},           false};
  if (is_due(verdict, now)) {
    told_.last_said = now;
    told_.awaited = verdict.awaited;
    decision.say = verdict.text;
  }
  if (is_of_ranks(verdict, keepers) ? keeps_too_long : is_over(verdict, ranks, now)) {
    has_ended_ = true;
    decision.end = is_final(verdict.kind) ? verdict.text : with_timeout(verdict.text, timeout_);
  }
  return decision;
}

// A process is told of at once, when the others may not wait for it yet, or are in what they will
// be through with: what keeps them is told once, when it has lasted.
bool StallJudge::is_due(const Verdict& verdict, WallTime now) {
  const bool is_settled =
      !verdict.awaited.empty() &&
      now - std::max(verdict.awaited_since, told_.since) >= stall_warning_.count() / kSettledAfter;
  const bool is_new_wait = is_settled && !told_.is_wait_told && verdict.awaited != told_.awaited;
  told_.is_wait_told |= is_settled;
  return told_.last_said == 0 || is_new_wait ||
         now - told_.last_said >= kRepeatAfter * stall_warning_.count();
}

bool StallJudge::is_of(const Told& told, const Verdict& verdict) {
  return is_same(verdict.kind, told.kind) && verdict.blamed == told.blamed;
}

// The ranks' pictures are not of the same moment: who is through with an operation looks absent
// beside one that was seen a little earlier, in it. The same operation must still be open in the
// newer pictures: in a long queue that goes on, each look finds another one.
bool StallJudge::is_confirmed(const Verdict& verdict, const std::vector<RankSnapshot>& ranks,
                              WallTime now) {
  if (!is_of(seen_, verdict) || seen_.operation != verdict.operation)
    seen_ = {verdict.kind, verdict.blamed, {}, now, 0, {}, false, verdict.operation};
  if (is_final(verdict.kind) || is_of_the_process(verdict.kind)) return true;
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankSnapshot& rank) {
    const bool may_wait = rank.liveness == Liveness::kRunning && !rank.open.empty();
    return !may_wait || rank.taken == 0 || rank.taken > seen_.since;
  });
}

// Time before not_before_, time in which any rank has asked for patience, and time in which the
// others got on without a rank that has joined, is nobody's stall.
void StallJudge::forgive(std::vector<RankSnapshot>& ranks, WallTime now) {
  is_paused_ = std::any_of(ranks.begin(), ranks.end(), [](const RankSnapshot& rank) {
    return !rank.pause.empty() && rank.liveness == Liveness::kRunning;
  });
  if (is_paused_) not_before_ = now;
  WallTime last_finished = 0;
  for (const RankSnapshot& rank : ranks)
    last_finished = std::max(last_finished, rank.last_finished_at);
  for (RankSnapshot& rank : ranks) {
    std::erase_if(rank.open, is_of_closing_set);
    for (OpenOperation& operation : rank.open) {
      operation.submitted = std::max(operation.submitted, not_before_);
      if (operation.kind == kJoinKind)
        operation.submitted = std::max(operation.submitted, last_finished);
      if (operation.started != 0) operation.started = std::max(operation.started, not_before_);
    }
  }
}

// Silence counts from its beginning: the deadlines of waits for these ranks began to pass then.
WallTime StallJudge::silent_since(const Verdict& verdict,
                                  const std::vector<RankSnapshot>& ranks) const {
  WallTime since = std::max(not_before_, woken_);
  for (const RankSnapshot& rank : ranks)
    if (std::ranges::find(verdict.blamed, rank.rank) != verdict.blamed.end())
      since = std::max(since, rank.last_sign_of_life);
  return since;
}

bool StallJudge::is_over(const Verdict& verdict, const std::vector<RankSnapshot>& ranks,
                         WallTime now) const {
  // A rank that has left will not come back.
  if (is_final(verdict.kind) || verdict.kind == Kind::kEnded) return true;
  if (verdict.kind == Kind::kSilent)
    return now - silent_since(verdict, ranks) >= (timeout_ + ends_later_).count();
  if (verdict.kind == Kind::kStopped) return now - told_.since >= timeout_.count();
  return find_stall(ranks, now, timeout_).kind != Kind::kNone;
}

std::optional<std::string> StallJudge::resign(WallTime now) {
  const Told told = std::exchange(told_, {});
  seen_ = {};
  if (told.last_said == 0 || has_ended_) return std::nullopt;
  return fmt::format("{} no longer keep{} the others, after {}", told.names,
                     told.blamed.size() == 1 ? "s" : "",
                     format_duration(nanoseconds(now - told.since)));
}

}  // namespace horo::observe

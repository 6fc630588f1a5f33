#include "horo/diagnosis/diagnose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "horo/base/text/quantity.h"
#include "horo/diagnosis/first_failure.h"
#include "horo/diagnosis/missing_operations.h"
#include "horo/diagnosis/rank_format.h"
#include "horo/flight_recorder/flight_format.h"

namespace horo::observe {
namespace {

using Kind = Verdict::Kind;

/// One diagnosis of a job. Each find_ function returns a verdict if the cause in its name applies,
/// and nullopt otherwise.
class Diagnosis {
 public:
  Diagnosis(std::span<const RankSnapshot> ranks, WallTime now, std::chrono::nanoseconds stall_after)
      : ranks_(ranks), now_(now), stall_after_(stall_after) {}

  // The order matters, because a dead or stopped rank explains failures and waits of other ranks,
  // and a failure explains waits. find_stuck() comes before the search for late ranks, because late
  // ranks are awaited for less than stall_after.
  Verdict verdict() const {
    for (const auto step :
         {&Diagnosis::find_dead, &Diagnosis::find_stopped, &Diagnosis::find_failed,
          &Diagnosis::find_silent, &Diagnosis::find_ended})
      if (auto found = (this->*step)()) return *found;
    const auto stalled = blame_idle(find_missing(ranks_, now_, stall_after_), false);
    if (stalled) return *stalled;
    if (auto found = find_stuck()) return *found;
    const auto late = blame_idle(find_missing(ranks_, now_, stall_after_ / 10), true);
    if (late) return *late;
    if (const auto all = all_killed()) return *all;
    return {Kind::kNone, {}, pause_text()};
  }

 private:
  const RankSnapshot& snapshot(int number) const {
    return *std::find_if(ranks_.begin(), ranks_.end(),
                         [&](const RankSnapshot& rank) { return rank.rank == number; });
  }
  std::string age(WallTime since) const { return format_nanoseconds(now_ - since); }

  std::vector<int> ranks_in_state(Liveness liveness) const {
    std::vector<int> numbers;
    for (const RankSnapshot& rank : ranks_)
      if (rank.liveness == liveness && rank.failure.empty()) numbers.push_back(rank.rank);
    std::ranges::sort(numbers);
    return numbers;
  }

  std::string describe(const std::vector<int>& numbers) const {
    return describe_ranks(numbers, ranks_);
  }
  static std::string quote(const MissingOperation& missing) {
    const std::string others = missing.others == 0 ? ""
                                                   : fmt::format(" and {} other{}", missing.others,
                                                                 missing.others == 1 ? "" : "s");
    // The name of a message has its ranks, and its process set if there is one.
    const bool has_set = !missing.operation.process_set.empty() && !is_message(missing.operation);
    const std::string set =
        has_set ? fmt::format(" of process set {}", missing.operation.process_set) : "";
    return fmt::format("'{}'{}{}", missing.operation.name, set, others);
  }

  // Returns a text such as "; it last finished 'step' 43 s ago, in phase 'data' for 40 s".
  std::string and_past(const std::vector<int>& numbers) const {
    const std::string past = describe_past(numbers, ranks_, now_);
    return past.empty() ? past : "; " + past;
  }
  // Returns a verdict on the state of ranks. Adds to `text` which other ranks wait for these ranks:
  // "TEXT; ranks 0-2 have waited 41 s for 'x'; it last finished 'step' 43 s ago; REMEDY".
  Verdict verdict_on(Kind kind, const std::vector<int>& numbers, std::string text,
                     const std::string& remedy = {}) const {
    const auto awaited = find_awaited(ranks_, numbers);
    if (awaited) {
      // If the blamed ranks have submitted the operation too, the other ranks wait for them in this
      // operation.
      const char* whom = !awaited->missing.empty() ? ""
                         : numbers.size() == 1     ? "it in "
                                                   : "them in ";
      text += fmt::format("; {} waited {} for {}{}", with_verb(awaited->waiting, "has", "have"),
                          age(awaited->since), whom, quote(*awaited));
    }
    text += and_past(numbers);
    if (!remedy.empty()) text += "; " + remedy;
    Verdict verdict{kind, numbers, std::move(text)};
    if (awaited) {
      verdict.awaited = awaited->operation.name;
      verdict.awaited_since = awaited->since;
    }
    return verdict;
  }

  std::optional<Verdict> find_dead() const {
    const std::vector<int> numbers = find_causal_deaths(ranks_, now_);
    if (numbers.empty()) return std::nullopt;
    if (numbers.size() == 1 && !snapshot(numbers[0]).ending.empty())
      return verdict_on(Kind::kDead, numbers,
                        fmt::format("{} {}", describe(numbers), snapshot(numbers[0]).ending));
    return verdict_on(
        Kind::kDead, numbers,
        fmt::format(
            "{} {} dead: the process is gone without an error message (SIGKILL, out of memory, "
            "or a call of exit()), last heartbeat {} ago",
            describe(numbers), numbers.size() == 1 ? "is" : "are",
            age(snapshot(numbers[0]).last_sign_of_life)));
  }

  // Applies if all ranks are dead and no other cause applies. The job was then probably killed as a
  // whole.
  std::optional<Verdict> all_killed() const {
    const std::vector<int> numbers = ranks_in_state(Liveness::kDead);
    if (numbers.empty() || numbers.size() != ranks_.size()) return std::nullopt;
    return Verdict{
        Kind::kDead, numbers,
        fmt::format("all {} ranks were killed at about the same time, {} ago; none of "
                    "them waited for another for long{}",
                    numbers.size(), age(ranks_[0].last_sign_of_life), and_past(numbers))};
  }

  std::optional<Verdict> find_stopped() const {
    const std::vector<int> numbers = ranks_in_state(Liveness::kStopped);
    if (numbers.empty()) return std::nullopt;
    return verdict_on(Kind::kStopped, numbers,
                      fmt::format("{} {} stopped (SIGSTOP, or a debugger)", describe(numbers),
                                  numbers.size() == 1 ? "is" : "are"),
                      resume_commands(numbers));
  }

  // Returns a text such as "kill -CONT 7 on host a, kill -CONT 9 11 on host b resumes them".
  std::string resume_commands(const std::vector<int>& numbers) const {
    constexpr std::size_t kMost = 8;
    if (numbers.size() > kMost) return "kill -CONT resumes each of them";
    std::map<std::string, std::string> pids_on;
    for (const int number : numbers)
      pids_on[snapshot(number).host] += fmt::format(" {}", snapshot(number).pid);
    std::vector<std::string> commands;
    for (const auto& [host, pids] : pids_on)
      commands.push_back(fmt::format("kill -CONT{} on host {}", pids, host));
    return fmt::format("{} resumes {}", fmt::join(commands, ", "),
                       numbers.size() == 1 ? "it" : "them");
  }

  std::optional<Verdict> find_failed() const {
    const FirstFailure first = find_first_failure(ranks_);
    if (first.rank == nullptr) return find_propagated(first);
    if (first.departed != nullptr)
      return Verdict{Kind::kEnded,
                     {first.departed->rank},
                     fmt::format("{} left while others still worked (by Context::shutdown(), or by "
                                 "the end of its Context, ProcessSet or plan); {}",
                                 describe({first.departed->rank}), first.rank->failure)};
    const int number = first.rank->rank;
    std::string text = fmt::format("{} {}", describe({number}), failure_without_rank(*first.rank));
    if (first.count > 1)
      text += fmt::format("; it is the first of {} ranks that failed", first.count);
    if (first.count == 1) return verdict_on(Kind::kFailed, {number}, std::move(text));
    return Verdict{Kind::kFailed, {number}, text + and_past({number})};
  }

  // Without a first failure, the earliest failure that is not the rank's own names the cause.
  static std::optional<Verdict> find_propagated(const FirstFailure& first) {
    if (first.propagated == nullptr) return std::nullopt;
    std::vector<int> blamed = ranks_named_first(first.propagated->failure);
    if (blamed.empty()) blamed = {first.propagated->rank};
    return Verdict{Kind::kFailed, std::move(blamed), first.propagated->failure};
  }

  std::optional<Verdict> find_silent() const {
    const std::vector<int> numbers = ranks_in_state(Liveness::kSilent);
    if (numbers.empty()) return std::nullopt;
    return verdict_on(
        Kind::kSilent, numbers,
        fmt::format("{} {} sent no heartbeat for {}: the process, its host or the network to "
                    "it may have failed",
                    describe(numbers), numbers.size() == 1 ? "has" : "have",
                    age(snapshot(numbers[0]).last_sign_of_life)));
  }

  std::optional<Verdict> find_ended() const {
    const std::vector<int> ended = ranks_in_state(Liveness::kEnded);
    for (const MissingOperation& missing : find_missing(ranks_, now_, {})) {
      if (missing.operation.kind == kShutdownKind) continue;
      std::vector<int> blamed;
      std::set_intersection(ended.begin(), ended.end(), missing.missing.begin(),
                            missing.missing.end(), std::back_inserter(blamed));
      if (blamed.empty()) continue;
      return Verdict{
          Kind::kEnded, blamed,
          fmt::format("{} {} ended early, without failure and without submitting {}, for which {} "
                      "waited {}{}{}; call join() where ranks have different amounts of data",
                      describe(blamed), blamed.size() == 1 ? "has" : "have", quote(missing),
                      with_verb(missing.waiting, "has", "have"), age(missing.since),
                      last_of(missing.waiting), and_past(blamed))};
    }
    return std::nullopt;
  }
  // Returns the last operation of the first waiting rank, such as " since 'net step 6'".
  std::string last_of(const std::vector<int>& waiting) const {
    const std::string& last = snapshot(waiting.front()).last_finished;
    return last.empty() ? "" : fmt::format(" since '{}'", last);
  }

  // Whether the rank has been in an exchange for longer than `stall_after`. Such a rank is blocked
  // itself, so it is not blamed for a missing operation.
  bool is_in_exchange(const RankSnapshot& rank) const {
    return std::ranges::any_of(rank.open, [&](const OpenOperation& open) {
      return open.started != 0 && now_ - open.started > stall_after_.count();
    });
  }

  // Blames, for the oldest missing operation, the ranks that do not wait themselves. If there are
  // none because the missing ranks wait in other operations, the verdict is on different
  // operations. Skips operations in which the only missing ranks that do not wait are in a pause or
  // in an exchange. A rank that has not made its call of a message may itself wait for another
  // rank, as in a pipeline. So a message is skipped if another operation has a rank to blame.
  std::optional<Verdict> blame_idle(const std::vector<MissingOperation>& found,
                                    bool is_late) const {
    bool has_chain = false;
    for (const MissingOperation& missing : found) {
      std::vector<int> idle, waiting_elsewhere;
      bool has_paused = false;
      bool is_exchanging = false;
      for (int number : missing.missing) {
        const bool waits = std::any_of(found.begin(), found.end(), [&](const auto& other) {
          return is_blocked_in(other, snapshot(number));
        });
        if (!snapshot(number).pause.empty())
          has_paused = true;
        else if (!waits && is_in_exchange(snapshot(number)))
          is_exchanging = true;
        else
          (waits ? waiting_elsewhere : idle).push_back(number);
      }
      if (!idle.empty()) return is_late ? late(missing, idle) : never_submitted(missing, idle);
      if (has_paused || is_exchanging) continue;
      if (is_message(missing.operation))
        has_chain = true;
      else if (!is_late)
        return different_operations(found);
    }
    if (has_chain && !is_late) return different_operations(found);
    return std::nullopt;
  }

  static const char* verb_for(const OpenOperation& operation) {
    if (operation.kind == kSendKind) return "called recv() for";
    if (operation.kind == kReceiveKind) return "called send() for";
    if (operation.kind == kGradientKind) return "marked";
    return operation.kind == kFinalizeKind ? "called" : "submitted";
  }

  Verdict never_submitted(const MissingOperation& missing, const std::vector<int>& blamed) const {
    return {Kind::kMissing,
            blamed,
            fmt::format("{} never {} {}; {} waited {} for it{}", describe(blamed),
                        verb_for(missing.operation), quote(missing),
                        with_verb(missing.waiting, "has", "have"), age(missing.since),
                        and_past(blamed)),
            {},
            0,
            missing.operation.name};
  }

  Verdict late(const MissingOperation& missing, const std::vector<int>& blamed) const {
    return {Kind::kLate,
            blamed,
            fmt::format("{} {} late with {}: {} waited {} for it{}", describe(blamed),
                        blamed.size() == 1 ? "is" : "are", quote(missing),
                        with_verb(missing.waiting, "has", "have"), age(missing.since),
                        and_past(blamed)),
            {},
            0,
            missing.operation.name};
  }

  Verdict different_operations(const std::vector<MissingOperation>& found) const {
    constexpr std::size_t kMost = 4;
    std::string groups;
    std::vector<int> listed, smallest;
    std::size_t count = 0;
    for (const MissingOperation& missing : found) {
      std::vector<int> here;  // ascending
      for (int number : missing.waiting)
        if (std::find(listed.begin(), listed.end(), number) == listed.end()) here.push_back(number);
      if (here.empty()) continue;
      listed.insert(listed.end(), here.begin(), here.end());
      if (smallest.empty() || here.size() <= smallest.size()) smallest = here;
      if (++count > kMost) continue;
      groups += fmt::format("{}{} in {} {} for {}", count == 1 ? "" : ", ", describe(here),
                            missing.operation.kind, quote(missing), age(missing.since));
    }
    const bool has_messages = std::ranges::any_of(
        found, [](const MissingOperation& missing) { return is_message(missing.operation); });
    return {Kind::kDifferentOperations,
            smallest,
            has_messages
                ? fmt::format("ranks wait for each other in different operations: {}{}; each of "
                              "them must be submitted by all its ranks",
                              groups, and_past(listed))
                : fmt::format("a subset of ranks is in one collective and the rest in another: "
                              "{}{}; all ranks must submit the same operations",
                              groups, and_past(listed)),
            {},
            0,
            found.front().operation.name};
  }

  // Applies if a rank has been in a completion callback for longer than `stall_after`. A callback
  // usually runs on the coordinator's thread, which then exchanges no operation.
  std::optional<Verdict> blocked_by_callback(const MissingOperation& open) const {
    std::vector<int> busy;
    for (const RankSnapshot& rank : ranks_)
      if (!rank.callback.empty() && now_ - rank.callback_since > stall_after_.count())
        busy.push_back(rank.rank);
    if (busy.empty()) return std::nullopt;
    std::ranges::sort(busy);
    return Verdict{
        Kind::kLate, busy,
        fmt::format("{}; {} been in {} {} for {}", describe_callbacks(ranks_, now_, stall_after_),
                    with_verb(open.waiting, "has", "have"), open.operation.kind, quote(open),
                    age(open.since))};
  }

  std::optional<Verdict> find_stuck() const {
    for (const MissingOperation& open : find_unfinished(ranks_, now_, stall_after_)) {
      if (auto found = blocked_by_callback(open)) return found;
      if (open.operation.kind == kShutdownKind) continue;
      const std::string rest = open.missing.empty()
                                   ? "every rank has submitted it"
                                   : fmt::format("{} {} finished it", format_ranks(open.missing),
                                                 open.missing.size() == 1 ? "has" : "have");
      return Verdict{Kind::kLate,
                     open.waiting,
                     fmt::format("{} {} been in {} {} for {} and {}: the exchange makes no "
                                 "progress (the network, or a rank without CPU time){}",
                                 describe(open.waiting), open.waiting.size() == 1 ? "has" : "have",
                                 open.operation.kind, quote(open), age(open.since), rest,
                                 and_past(open.waiting)),
                     {},
                     0,
                     open.operation.name};
    }
    return std::nullopt;
  }

  // Describes the pauses of all ranks, if another rank has waited longer than `stall_after` for a
  // rank in a pause. Returns an empty text otherwise.
  std::string pause_text() const {
    std::vector<int> paused;
    for (const RankSnapshot& rank : ranks_)
      if (!rank.pause.empty()) paused.push_back(rank.rank);
    const auto awaited = find_awaited(ranks_, paused);
    if (!awaited || now_ - awaited->since <= stall_after_.count()) return {};
    return describe_pauses(ranks_, now_, {});
  }

  std::span<const RankSnapshot> ranks_;
  WallTime now_;
  std::chrono::nanoseconds stall_after_;
};

}  // namespace

Verdict diagnose(std::span<const RankSnapshot> ranks, WallTime now,
                 std::chrono::nanoseconds stall_after) {
  return Diagnosis(ranks, now, stall_after).verdict();
}

}  // namespace horo::observe

#include "horo/observe/diagnose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "horo/observe/first_failure.h"
#include "horo/observe/flight_file.h"
#include "horo/observe/missing_operations.h"
#include "horo/observe/pauses.h"
#include "horo/observe/rank_words.h"

namespace horo::observe {
namespace {

using Kind = Verdict::Kind;

// A launcher ends the ranks that are left within about a second of the first.
constexpr WallTime kTogether = 2'000'000'000;

/// One look at a job, with what each step needs.
class Diagnosis {
 public:
  Diagnosis(std::span<const RankSnapshot> ranks, WallTime now, std::chrono::nanoseconds stall_after)
      : ranks_(ranks), now_(now), stall_after_(stall_after) {}

  Verdict verdict() const {
    for (const auto step :
         {&Diagnosis::find_dead, &Diagnosis::find_stopped, &Diagnosis::find_failed,
          &Diagnosis::find_silent, &Diagnosis::find_ended})
      if (auto found = (this->*step)()) return *found;
    const auto stalled = judge(find_missing(ranks_, now_, stall_after_), false);
    if (stalled) return *stalled;
    if (auto found = find_stuck()) return *found;
    const auto late = judge(find_missing(ranks_, now_, stall_after_ / 10), true);
    if (late) return *late;
    if (const auto all = all_killed()) return *all;
    return {Kind::kNone, {}, pause_text()};
  }

 private:
  const RankSnapshot& of(int number) const {
    return *std::find_if(ranks_.begin(), ranks_.end(),
                         [&](const RankSnapshot& rank) { return rank.rank == number; });
  }
  std::string age(WallTime since) const { return name_age(now_ - since); }

  std::vector<const RankSnapshot*> all_that_are(Liveness liveness) const {
    std::vector<const RankSnapshot*> found;
    for (const RankSnapshot& rank : ranks_)
      if (rank.liveness == liveness && rank.failure.empty()) found.push_back(&rank);
    return found;
  }

  std::string describe(const std::vector<int>& numbers) const {
    return describe_ranks(numbers, ranks_);
  }
  static std::string quote(const MissingOperation& missing) {
    const std::string others = missing.others == 0 ? ""
                                                   : fmt::format(" and {} other{}", missing.others,
                                                                 missing.others == 1 ? "" : "s");
    const std::string set = missing.operation.process_set.empty()
                                ? ""
                                : fmt::format(" of process set {}", missing.operation.process_set);
    return fmt::format("'{}'{}{}", missing.operation.name, set, others);
  }

  // "; it last finished 'step' 43 s ago, in phase 'data' for 40 s".
  std::string and_past(const std::vector<int>& numbers) const {
    const std::string past = describe_past(numbers, ranks_, now_);
    return past.empty() ? past : "; " + past;
  }
  // A verdict on ranks whatever others do, with whom that keeps:
  // "TEXT; ranks 0-2 have waited 41 s for 'x'; it last finished 'step' 43 s ago; REMEDY".
  Verdict verdict_on(Kind kind, const std::vector<int>& numbers, std::string text,
                     const std::string& remedy = {}) const {
    const auto awaited = find_awaited(ranks_, numbers);
    if (awaited) {
      // In what they have submitted too, it is them that the others wait for.
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

  static std::vector<int> numbers_of(const std::vector<const RankSnapshot*>& ranks) {
    std::vector<int> numbers;
    for (const RankSnapshot* rank : ranks) numbers.push_back(rank->rank);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  std::optional<Verdict> find_dead() const {
    std::vector<const RankSnapshot*> dead = all_that_are(Liveness::kDead);
    drop_deaths_after_failures(dead);
    drop_deaths_beside_named(dead);
    if (dead.size() == ranks_.size() && dead.size() > 1) {
      WallTime last = 0;
      for (const RankSnapshot* rank : dead) last = std::max(last, rank->last_sign_of_life);
      std::erase_if(dead, [&](const RankSnapshot* rank) {
        return rank->last_sign_of_life + kTogether > last;
      });
    }
    if (dead.empty()) return std::nullopt;
    const std::vector<int> numbers = without_victims(numbers_of(dead));
    if (numbers.size() == 1 && !of(numbers[0]).ending.empty())
      return verdict_on(Kind::kDead, numbers,
                        fmt::format("{} {}", describe(numbers), of(numbers[0]).ending));
    return verdict_on(
        Kind::kDead, numbers,
        fmt::format("{} {} dead: the process is gone without a word (SIGKILL, out of memory, or an "
                    "exit of its own), last sign of life {} ago",
                    describe(numbers), numbers.size() == 1 ? "is" : "are",
                    age(of(numbers[0]).last_sign_of_life)));
  }

  // A rank that died after another had failed did not cause that failure. Where a time-out ended
  // the job, the ranks that it was about lived: one that was stopped is dead now because the
  // launcher killed it. Only one that the launcher names as the first may have died before.
  void drop_deaths_after_failures(std::vector<const RankSnapshot*>& dead) const {
    const FirstFailure failure = find_first_failure(ranks_);
    const RankSnapshot* first = failure.rank != nullptr ? failure.rank : failure.passed_on;
    if (first == nullptr) return;
    const bool is_timeout = first->is_aborted && names_timeout(first->failure);
    // Of the rank that the launcher names first, the record has the time.
    const WallTime since = first->ending.empty() ? first->taken : first->taken - kTogether;
    std::erase_if(dead, [&](const RankSnapshot* rank) {
      return rank->last_sign_of_life > since || (is_timeout && rank->ending.empty());
    });
  }

  // The launcher names the rank that ended first, and kills the others. One that it does not name
  // died before only if its last sign of life is much older.
  static void drop_deaths_beside_named(std::vector<const RankSnapshot*>& dead) {
    const auto named =
        std::ranges::find_if(dead, [](const RankSnapshot* rank) { return !rank->ending.empty(); });
    if (named == dead.end()) return;
    const WallTime before = (*named)->last_sign_of_life - kTogether;
    std::erase_if(dead, [&](const RankSnapshot* rank) {
      return rank->ending.empty() && rank->last_sign_of_life > before;
    });
  }

  // When one rank has died, launchers end those that are left, and kill who is slow to go: a dead
  // rank that waited for another dead one is no cause, unless the launcher names it as the first.
  std::vector<int> without_victims(const std::vector<int>& dead) const {
    std::vector<int> causes = dead;
    for (const MissingOperation& missing : find_missing(ranks_, now_, {})) {
      const bool is_for_a_cause = std::any_of(causes.begin(), causes.end(), [&](int number) {
        return std::find(missing.missing.begin(), missing.missing.end(), number) !=
               missing.missing.end();
      });
      if (is_for_a_cause)
        std::erase_if(causes, [&](int number) {
          return of(number).ending.empty() && is_waiting_in(missing, number);
        });
    }
    return causes;
  }

  // No rank stands out: the job was killed as a whole, while nothing was wrong with it.
  std::optional<Verdict> all_killed() const {
    const std::vector<int> numbers = numbers_of(all_that_are(Liveness::kDead));
    if (numbers.empty() || numbers.size() != ranks_.size()) return std::nullopt;
    return Verdict{
        Kind::kDead, numbers,
        fmt::format("all {} ranks were killed at about the same time, {} ago; none of "
                    "them waited for another for long{}",
                    numbers.size(), age(ranks_[0].last_sign_of_life), and_past(numbers))};
  }

  std::optional<Verdict> find_stopped() const {
    const std::vector<int> numbers = numbers_of(all_that_are(Liveness::kStopped));
    if (numbers.empty()) return std::nullopt;
    return verdict_on(Kind::kStopped, numbers,
                      fmt::format("{} {} stopped (SIGSTOP, or a debugger)", describe(numbers),
                                  numbers.size() == 1 ? "is" : "are"),
                      resume_commands(numbers));
  }

  // "kill -CONT 7 on host a, kill -CONT 9 11 on host b lets them go on".
  std::string resume_commands(const std::vector<int>& numbers) const {
    constexpr std::size_t kMost = 8;
    if (numbers.size() > kMost) return "kill -CONT lets each of them go on";
    std::map<std::string, std::string> pids_on;
    for (const int number : numbers) pids_on[of(number).host] += fmt::format(" {}", of(number).pid);
    std::vector<std::string> commands;
    for (const auto& [host, pids] : pids_on)
      commands.push_back(fmt::format("kill -CONT{} on host {}", pids, host));
    return fmt::format("{} lets {} go on", fmt::join(commands, ", "),
                       numbers.size() == 1 ? "it" : "them");
  }

  std::optional<Verdict> find_failed() const {
    const FirstFailure first = find_first_failure(ranks_);
    if (first.rank == nullptr) return find_passed_on(first);
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

  // Every rank failed because of the text that ended the job: that is the cause.
  static std::optional<Verdict> find_passed_on(const FirstFailure& first) {
    if (first.passed_on == nullptr) return std::nullopt;
    std::vector<int> blamed = ranks_named_first(first.passed_on->failure);
    if (blamed.empty()) blamed = {first.passed_on->rank};
    return Verdict{Kind::kFailed, std::move(blamed), first.passed_on->failure};
  }

  std::optional<Verdict> find_silent() const {
    const auto silent = all_that_are(Liveness::kSilent);
    if (silent.empty()) return std::nullopt;
    const std::vector<int> numbers = numbers_of(silent);
    return verdict_on(
        Kind::kSilent, numbers,
        fmt::format("{} {} given no sign of life for {}: the process, its host or the way to it is "
                    "in trouble",
                    describe(numbers), numbers.size() == 1 ? "has" : "have",
                    age(of(numbers[0]).last_sign_of_life)));
  }

  std::optional<Verdict> find_ended() const {
    const std::vector<int> ended = numbers_of(all_that_are(Liveness::kEnded));
    for (const MissingOperation& missing : find_missing(ranks_, now_, {})) {
      if (missing.operation.kind == kShutdownKind) continue;
      std::vector<int> blamed;
      std::set_intersection(ended.begin(), ended.end(), missing.missing.begin(),
                            missing.missing.end(), std::back_inserter(blamed));
      if (blamed.empty()) continue;
      return Verdict{
          Kind::kEnded, blamed,
          fmt::format("{} {} ended early, in good order, without {}, for which {} waited {}{}{}; "
                      "call join() where ranks have different amounts of data",
                      describe(blamed), blamed.size() == 1 ? "has" : "have", quote(missing),
                      with_verb(missing.waiting, "has", "have"), age(missing.since),
                      last_of(missing.waiting), and_past(blamed))};
    }
    return std::nullopt;
  }
  // What those that wait have behind them: " since 'net step 6'".
  std::string last_of(const std::vector<int>& waiting) const {
    const std::string& last = of(waiting.front()).last_finished;
    return last.empty() ? "" : fmt::format(" since '{}'", last);
  }

  // A rank that has marked a gradient goes on to compute, until its bucket is exchanged.
  bool is_waiting_in(const MissingOperation& missing, int number) const {
    if (std::find(missing.waiting.begin(), missing.waiting.end(), number) == missing.waiting.end())
      return false;
    const auto& open = of(number).open;
    return missing.operation.kind != kGradientKind ||
           std::any_of(open.begin(), open.end(), [&](const OpenOperation& operation) {
             return operation.name == missing.operation.name &&
                    operation.process_set == missing.operation.process_set &&
                    operation.started != 0;
           });
  }

  // For longer than a stall takes, in what all ranks have submitted: the exchange keeps the rank.
  bool is_in_exchange(const RankSnapshot& rank) const {
    return std::ranges::any_of(rank.open, [&](const OpenOperation& open) {
      return open.started != 0 && now_ - open.started > stall_after_.count();
    });
  }

  // Whom to blame for the oldest of what is missing: those that wait for nothing themselves.
  std::optional<Verdict> judge(const std::vector<MissingOperation>& found, bool is_late) const {
    for (const MissingOperation& missing : found) {
      std::vector<int> idle, waiting_elsewhere;
      bool has_paused = false;
      bool is_exchanging = false;
      for (int number : missing.missing) {
        const bool waits = std::any_of(found.begin(), found.end(), [&](const auto& other) {
          return is_waiting_in(other, number);
        });
        if (!of(number).pause.empty())
          has_paused = true;
        else if (!waits && is_in_exchange(of(number)))
          is_exchanging = true;
        else
          (waits ? waiting_elsewhere : idle).push_back(number);
      }
      if (!idle.empty()) return is_late ? late(missing, idle) : never_submitted(missing, idle);
      if (has_paused || is_exchanging) continue;
      if (!is_late) return different_operations(found);
    }
    return std::nullopt;
  }

  static const char* verb_for(const OpenOperation& operation) {
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
    std::vector<int> placed, smallest;
    std::size_t count = 0;
    for (const MissingOperation& missing : found) {
      std::vector<int> here;  // ascending
      for (int number : missing.waiting)
        if (std::find(placed.begin(), placed.end(), number) == placed.end()) here.push_back(number);
      if (here.empty()) continue;
      placed.insert(placed.end(), here.begin(), here.end());
      if (smallest.empty() || here.size() <= smallest.size()) smallest = here;
      if (++count > kMost) continue;
      groups += fmt::format("{}{} in {} {} for {}", count == 1 ? "" : ", ", describe(here),
                            missing.operation.kind, quote(missing), age(missing.since));
    }
    return {Kind::kDifferentOperations,
            smallest,
            fmt::format("a subset of ranks is in one collective and the rest in another: {}{}; "
                        "all ranks must submit the same operations",
                        groups, and_past(placed)),
            {},
            0,
            found.front().operation.name};
  }

  // All ranks have submitted it, and the thread that is to exchange it is in a callback.
  std::optional<Verdict> kept_by_callback(const MissingOperation& open) const {
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
      if (auto found = kept_by_callback(open)) return found;
      if (open.operation.kind == kShutdownKind) continue;
      const std::string rest = open.missing.empty()
                                   ? "every rank has submitted it"
                                   : fmt::format("{} {} through with it", name_ranks(open.missing),
                                                 open.missing.size() == 1 ? "is" : "are");
      return Verdict{Kind::kLate,
                     open.waiting,
                     fmt::format("{} {} been in {} {} for {} and {}: the exchange itself does not "
                                 "go on (the network, or a rank without CPU time){}",
                                 describe(open.waiting), open.waiting.size() == 1 ? "has" : "have",
                                 open.operation.kind, quote(open), age(open.since), rest,
                                 and_past(open.waiting)),
                     {},
                     0,
                     open.operation.name};
    }
    return std::nullopt;
  }

  // A pause that others have waited for longer than a stall takes.
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

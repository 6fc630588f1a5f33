#include "horo/observe/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "horo/observe/flight_file.h"
#include "horo/observe/missing_operations.h"

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

  static std::string describe(const RankSnapshot& rank) {
    if (rank.pid == 0) return fmt::format("rank {} (host {})", rank.rank, rank.host);
    return fmt::format("rank {} (host {}, pid {})", rank.rank, rank.host, rank.pid);
  }
  // "rank 3 (host b, pid 7)", or more of them in fewer words.
  std::string describe(const std::vector<int>& numbers) const {
    return numbers.size() == 1 ? describe(of(numbers[0])) : name_ranks(numbers);
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

  // What a rank did last: "it last finished 'step' 43 s ago, in phase 'data' for 40 s".
  std::string history(const RankSnapshot& rank) const {
    std::string text = rank.last_finished.empty()
                           ? "it has finished nothing"
                           : fmt::format("it last finished '{}' {} ago", rank.last_finished,
                                         age(rank.last_finished_at));
    if (!rank.phase.empty())
      text += fmt::format(", in phase '{}' for {}", rank.phase, age(rank.phase_since));
    return text;
  }
  std::string histories(const std::vector<int>& numbers) const {
    if (numbers.size() == 1) return history(of(numbers[0]));
    constexpr std::size_t kMost = 4;
    std::string text;
    for (std::size_t i = 0; i < numbers.size() && i < kMost; ++i)
      text += fmt::format("{}rank {}: {}", i == 0 ? "" : "; ", numbers[i], history(of(numbers[i])));
    return text;
  }
  // Who waits for one of `numbers`, and in what: "; ranks 0-2 have waited 41 s for it in 'x'".
  std::string who_waits_for(const std::vector<int>& numbers) const {
    for (const MissingOperation& missing : find_missing(ranks_, now_, {})) {
      const bool is_for_them = std::any_of(numbers.begin(), numbers.end(), [&](int number) {
        return std::find(missing.missing.begin(), missing.missing.end(), number) !=
               missing.missing.end();
      });
      if (is_for_them)
        return fmt::format("; {} {} waited {} for {}", name_ranks(missing.waiting),
                           missing.waiting.size() == 1 ? "has" : "have", age(missing.since),
                           quote(missing));
    }
    return {};
  }

  static std::vector<int> numbers_of(const std::vector<const RankSnapshot*>& ranks) {
    std::vector<int> numbers;
    for (const RankSnapshot* rank : ranks) numbers.push_back(rank->rank);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  std::optional<Verdict> find_dead() const {
    std::vector<const RankSnapshot*> dead = all_that_are(Liveness::kDead);
    if (dead.size() == ranks_.size() && dead.size() > 1) {
      WallTime last = 0;
      for (const RankSnapshot* rank : dead) last = std::max(last, rank->last_sign_of_life);
      std::erase_if(dead, [&](const RankSnapshot* rank) {
        return rank->last_sign_of_life + kTogether > last;
      });
    }
    if (dead.empty()) return std::nullopt;
    const std::vector<int> numbers = without_victims(numbers_of(dead));
    std::string text = fmt::format(
        "{} {} dead: the process is gone without a word (SIGKILL, out of memory, or an exit of its "
        "own), last sign of life {} ago{}; {}",
        describe(numbers), numbers.size() == 1 ? "is" : "are",
        age(of(numbers[0]).last_sign_of_life), who_waits_for(numbers), histories(numbers));
    return Verdict{Kind::kDead, numbers, std::move(text)};
  }

  // When one rank has died, launchers end those that are left, and kill who is slow to go: a dead
  // rank that waited for another dead one is no cause.
  std::vector<int> without_victims(const std::vector<int>& dead) const {
    std::vector<int> causes = dead;
    for (const MissingOperation& missing : find_missing(ranks_, now_, {})) {
      const bool is_for_a_cause = std::any_of(causes.begin(), causes.end(), [&](int number) {
        return std::find(missing.missing.begin(), missing.missing.end(), number) !=
               missing.missing.end();
      });
      if (is_for_a_cause)
        std::erase_if(causes, [&](int number) { return is_waiting_in(missing, number); });
    }
    return causes;
  }

  // No rank stands out: the job was killed as a whole, while nothing was wrong with it.
  std::optional<Verdict> all_killed() const {
    const std::vector<int> numbers = numbers_of(all_that_are(Liveness::kDead));
    if (numbers.empty() || numbers.size() != ranks_.size()) return std::nullopt;
    return Verdict{Kind::kDead, numbers,
                   fmt::format("all {} ranks were killed at about the same time, {} ago; none of "
                               "them waited for another for long",
                               numbers.size(), age(ranks_[0].last_sign_of_life))};
  }

  std::optional<Verdict> find_stopped() const {
    const std::vector<int> numbers = numbers_of(all_that_are(Liveness::kStopped));
    if (numbers.empty()) return std::nullopt;
    const RankSnapshot& first = of(numbers[0]);
    return Verdict{Kind::kStopped, numbers,
                   fmt::format("{} {} stopped (SIGSTOP, or a debugger){}; kill -CONT {} on host {} "
                               "lets it go on",
                               describe(numbers), numbers.size() == 1 ? "is" : "are",
                               who_waits_for(numbers), first.pid, first.host)};
  }

  std::optional<Verdict> find_failed() const {
    const RankSnapshot* first = nullptr;
    std::size_t count = 0;
    for (const RankSnapshot& rank : ranks_) {
      if (rank.failure.empty()) continue;
      ++count;
      if (first == nullptr || rank.taken < first->taken) first = &rank;
    }
    if (first == nullptr) return std::nullopt;
    const std::string others =
        count == 1 ? "" : fmt::format(" (the first of {} ranks that failed)", count);
    return Verdict{Kind::kFailed,
                   {first->rank},
                   fmt::format("{} failed{}: {}; {}", describe(*first), others, first->failure,
                               history(*first))};
  }

  std::optional<Verdict> find_silent() const {
    const auto silent = all_that_are(Liveness::kSilent);
    if (silent.empty()) return std::nullopt;
    const std::vector<int> numbers = numbers_of(silent);
    // Nothing else is known of a rank that was never heard of.
    const std::string past = silent[0]->pid == 0 ? "" : "; " + histories(numbers);
    return Verdict{
        Kind::kSilent, numbers,
        fmt::format("{} {} given no sign of life for {}: the process, its host or the way to it is "
                    "in trouble{}{}",
                    describe(numbers), numbers.size() == 1 ? "has" : "have",
                    age(of(numbers[0]).last_sign_of_life), who_waits_for(numbers), past)};
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
          fmt::format("{} {} ended early, in good order, without {}, for which {} {} "
                      "waited {}{}; {}; call join() where ranks have different amounts of data",
                      describe(blamed), blamed.size() == 1 ? "has" : "have", quote(missing),
                      name_ranks(missing.waiting), missing.waiting.size() == 1 ? "has" : "have",
                      age(missing.since), last_of(missing.waiting), histories(blamed))};
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

  // Whom to blame for the oldest of what is missing: those that wait for nothing themselves.
  std::optional<Verdict> judge(const std::vector<MissingOperation>& found, bool is_late) const {
    for (const MissingOperation& missing : found) {
      std::vector<int> idle, waiting_elsewhere;
      bool has_paused = false;
      for (int number : missing.missing) {
        const bool waits = std::any_of(found.begin(), found.end(), [&](const auto& other) {
          return is_waiting_in(other, number);
        });
        if (!of(number).pause.empty())
          has_paused = true;
        else
          (waits ? waiting_elsewhere : idle).push_back(number);
      }
      if (!idle.empty()) return is_late ? late(missing, idle) : never_submitted(missing, idle);
      if (has_paused) continue;
      if (!is_late) return different_operations(found);
    }
    return std::nullopt;
  }

  Verdict never_submitted(const MissingOperation& missing, const std::vector<int>& blamed) const {
    return {Kind::kMissing, blamed,
            fmt::format("{} never {} {}; {} {} waited {} for it; {}", describe(blamed),
                        missing.operation.kind == kGradientKind ? "marked" : "submitted",
                        quote(missing), name_ranks(missing.waiting),
                        missing.waiting.size() == 1 ? "has" : "have", age(missing.since),
                        histories(blamed))};
  }

  Verdict late(const MissingOperation& missing, const std::vector<int>& blamed) const {
    return {Kind::kLate, blamed,
            fmt::format("{} {} late with {}: {} {} waited {} for it; {}", describe(blamed),
                        blamed.size() == 1 ? "is" : "are", quote(missing),
                        name_ranks(missing.waiting), missing.waiting.size() == 1 ? "has" : "have",
                        age(missing.since), histories(blamed))};
  }

  Verdict different_operations(const std::vector<MissingOperation>& found) const {
    constexpr std::size_t kMost = 4;
    std::string groups;
    std::vector<int> placed, smallest;
    std::size_t count = 0;
    for (const MissingOperation& missing : found) {
      std::vector<int> here;
      for (int number : missing.waiting)
        if (std::find(placed.begin(), placed.end(), number) == placed.end()) here.push_back(number);
      if (here.empty()) continue;
      placed.insert(placed.end(), here.begin(), here.end());
      if (smallest.empty() || here.size() <= smallest.size()) smallest = here;
      if (++count > kMost) continue;
      groups += fmt::format("{}{} in {} {} for {}", count == 1 ? "" : ", ", name_ranks(here),
                            missing.operation.kind, quote(missing), age(missing.since));
    }
    return {Kind::kDifferentOperations, smallest,
            fmt::format("a subset of ranks is in one collective and the rest in another: {}; all "
                        "ranks must submit the same operations",
                        groups)};
  }

  std::optional<Verdict> find_stuck() const {
    for (const MissingOperation& open : find_unfinished(ranks_, now_, stall_after_)) {
      if (open.operation.kind == kShutdownKind) continue;
      const std::string rest = open.missing.empty()
                                   ? "every rank has submitted it"
                                   : fmt::format("{} {} through with it", name_ranks(open.missing),
                                                 open.missing.size() == 1 ? "is" : "are");
      return Verdict{Kind::kLate, open.waiting,
                     fmt::format("{} {} been in {} {} for {} and {}: the exchange itself does not "
                                 "go on (the network, or a rank without CPU time)",
                                 describe(open.waiting), open.waiting.size() == 1 ? "has" : "have",
                                 open.operation.kind, quote(open), age(open.since), rest)};
    }
    return std::nullopt;
  }

  std::string pause_text() const {
    for (const MissingOperation& missing : find_missing(ranks_, now_, stall_after_))
      for (int number : missing.missing)
        if (const RankSnapshot& rank = of(number); !rank.pause.empty())
          return fmt::format("{} wait{} for {}, which pauses for '{}'", name_ranks(missing.waiting),
                             missing.waiting.size() == 1 ? "s" : "", describe(rank), rank.pause);
    return {};
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

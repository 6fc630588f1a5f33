#include "horo/observe/diagnose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "horo/base/quantity.h"

namespace horo::observe {
namespace {

using Kind = Verdict::Kind;

std::string name_of(const RankSnapshot& rank) {
  return fmt::format("rank {} (host {})", rank.rank, rank.host);
}

std::string since(WallTime then, WallTime now) {
  return format_duration(std::chrono::nanoseconds(std::max<WallTime>(now - then, 0)));
}

const OpenOperation* find_open(const RankSnapshot& rank, const OpenOperation& wanted) {
  for (const OpenOperation& operation : rank.open)
    if (operation.name == wanted.name && operation.process_set == wanted.process_set)
      return &operation;
  return nullptr;
}

// Ranks in a state of which they cannot come out by themselves.
Verdict of_liveness(std::span<const RankSnapshot> ranks, Liveness liveness, Kind kind,
                    std::string_view what) {
  Verdict verdict;
  std::vector<std::string> names;
  for (const RankSnapshot& rank : ranks) {
    if (rank.liveness != liveness) continue;
    verdict.kind = kind;
    verdict.blamed.push_back(rank.rank);
    names.push_back(fmt::format("{}, process {}", name_of(rank), rank.pid));
  }
  if (!names.empty()) verdict.text = fmt::format("{} {}", fmt::join(names, "; "), what);
  return verdict;
}

Verdict of_failure(std::span<const RankSnapshot> ranks) {
  for (const RankSnapshot& rank : ranks)
    if (!rank.failure.empty())
      return {Kind::kFailed, {rank.rank}, fmt::format("{}: {}", name_of(rank), rank.failure)};
  return {};
}

// What a rank does that does not come to the operation the others are in.
std::string excuse_of(const RankSnapshot& rank, WallTime now) {
  if (rank.liveness == Liveness::kEnded) return "has left the job";
  if (!rank.open.empty())
    return fmt::format("is in {} '{}' since {}", rank.open.front().kind, rank.open.front().name,
                       since(rank.open.front().submitted, now));
  std::string text = "computes";
  if (!rank.phase.empty())
    text += fmt::format(", in phase '{}' since {}", rank.phase, since(rank.phase_since, now));
  if (!rank.last_finished.empty())
    text += fmt::format("; it last finished '{}' {} ago", rank.last_finished,
                        since(rank.last_finished_at, now));
  return text;
}

Kind kind_of(const RankSnapshot& rank) {
  if (rank.liveness == Liveness::kEnded) return Kind::kEnded;
  return rank.open.empty() ? Kind::kLate : Kind::kDifferentOperations;
}

// Whether `rank` has yet to come to what `waiting` is in: it may be through with it already.
bool is_absent(const RankSnapshot& rank, const OpenOperation& operation,
               const RankSnapshot& waiting) {
  if (find_open(rank, operation) != nullptr) return false;
  return operation.started == 0 && rank.finished <= waiting.finished;
}

}  // namespace

Verdict diagnose(std::span<const RankSnapshot> ranks, WallTime now,
                 std::chrono::nanoseconds stall_after) {
  for (const Verdict& verdict :
       {of_liveness(ranks, Liveness::kDead, Kind::kDead, "is dead"), of_failure(ranks),
        of_liveness(ranks, Liveness::kStopped, Kind::kStopped,
                    "is stopped (kill -CONT resumes it)"),
        of_liveness(ranks, Liveness::kSilent, Kind::kSilent, "gives no sign of life")})
    if (verdict.kind != Kind::kNone) return verdict;
  if (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return !rank.pause.empty(); }))
    return {};

  const OpenOperation* oldest = nullptr;
  const RankSnapshot* waiting = nullptr;
  for (const RankSnapshot& rank : ranks)
    for (const OpenOperation& operation : rank.open)
      if (now - operation.submitted > stall_after.count() &&
          (oldest == nullptr || operation.submitted < oldest->submitted) &&
          std::any_of(ranks.begin(), ranks.end(),
                      [&](const auto& other) { return is_absent(other, operation, rank); })) {
        oldest = &operation;
        waiting = &rank;
      }
  if (oldest == nullptr) return {};

  Verdict verdict;
  std::vector<std::string> names;
  std::string excuses;
  for (const RankSnapshot& rank : ranks) {
    if (!is_absent(rank, *oldest, *waiting)) continue;
    if (verdict.blamed.empty()) verdict.kind = kind_of(rank);
    verdict.blamed.push_back(rank.rank);
    names.push_back(name_of(rank));
    excuses +=
        fmt::format("{}rank {} {}", excuses.empty() ? ": " : "; ", rank.rank, excuse_of(rank, now));
  }
  verdict.text = fmt::format("'{}' has waited {} for {}{}", oldest->name,
                             since(oldest->submitted, now), fmt::join(names, ", "), excuses);
  return verdict;
}

}  // namespace horo::observe

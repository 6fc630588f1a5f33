#include "horo/observe/first_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "horo/base/quantity.h"
#include "horo/observe/missing_operations.h"

namespace horo::observe {
namespace {

constexpr std::string_view kTimeoutMark = " (HORO_TIMEOUT is ";

// Texts name ranks as Topology::describe() and describe_ranks() do: "rank 3 (host b".
std::string name_in_texts(const RankSnapshot& rank) { return fmt::format("rank {} (", rank.rank); }

bool is_named_in(const std::string& failure, const RankSnapshot& other) {
  return failure.find(name_in_texts(other)) != std::string::npos;
}

// Not the text of the abort signal, nor what another node passed on: that begins with the name of
// the rank that it is about.
bool has_own_failure(const RankSnapshot& rank) {
  if (rank.failure.empty() || rank.is_aborted) return false;
  const std::vector<int> named = ranks_named_first(rank.failure);
  return named.empty() || std::ranges::find(named, rank.rank) != named.end();
}

// "... rank 1 (host b) has shut down ..." is the coordinator's text, "... has left ..." a plan's.
bool is_departed_in(const std::string& failure, const RankSnapshot& other) {
  const std::size_t name = failure.find(name_in_texts(other));
  if (name == std::string::npos) return false;
  const std::size_t end = failure.find(')', name);
  if (end == std::string::npos) return false;
  const std::string_view predicate = std::string_view(failure).substr(end + 1);
  return predicate.starts_with(" has shut down") || predicate.starts_with(" has left");
}

bool follows_from(const RankSnapshot& rank, const RankSnapshot& other) {
  if (&rank == &other || !is_named_in(rank.failure, other)) return false;
  if (has_own_failure(other)) return other.taken < rank.taken;
  return other.failure.empty() && other.liveness == Liveness::kDead &&
         other.last_sign_of_life <= rank.taken;
}

}  // namespace

FirstFailure find_first_failure(std::span<const RankSnapshot> ranks) {
  FirstFailure first;
  for (const RankSnapshot& rank : ranks) {
    if (rank.failure.empty()) continue;
    if (!has_own_failure(rank)) {
      if (first.passed_on == nullptr || rank.taken < first.passed_on->taken)
        first.passed_on = &rank;
      continue;
    }
    bool is_consequence = false;
    for (const RankSnapshot& other : ranks) is_consequence |= follows_from(rank, other);
    if (is_consequence) continue;
    ++first.count;
    if (first.rank == nullptr || rank.taken < first.rank->taken) first.rank = &rank;
  }
  if (first.rank == nullptr) return first;
  for (const RankSnapshot& other : ranks)
    if (&other != first.rank && !has_own_failure(other) &&
        is_departed_in(first.rank->failure, other))
      first.departed = &other;
  return first;
}

std::string with_timeout(std::string_view text, std::chrono::nanoseconds timeout) {
  return fmt::format("{}{}{})", text, kTimeoutMark, format_duration(timeout));
}

bool names_timeout(std::string_view failure) {
  return failure.find(kTimeoutMark) != std::string_view::npos;
}

std::string failure_without_rank(const RankSnapshot& rank) {
  const std::string_view text = rank.failure;
  const std::size_t end = text.find(") ");
  if (text.starts_with(name_in_texts(rank)) && end != std::string_view::npos)
    return std::string(text.substr(end + 2));
  return fmt::format("failed: {}", text);
}

}  // namespace horo::observe

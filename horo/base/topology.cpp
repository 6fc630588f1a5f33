#include "horo/base/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <unordered_map>

#include "horo/base/error.h"
#include "horo/base/hash.h"

namespace horo {
namespace {

constexpr std::size_t kLongestPlain = 40;
constexpr std::size_t kLongest = 56;  // without "#number"
constexpr int kMostMembers = 1 << 20;

// Writes runs of at least three ranks with a constant stride as "first-last" (stride 1) or
// "first-last:stride".
std::string in_runs(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    const int stride = end < ranks.size() ? ranks[end] - ranks[begin] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
    if (end - begin < 3) {
      parts.push_back(std::to_string(ranks[begin++]));
      continue;
    }
    parts.push_back(fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
    if (stride != 1) parts.back() += fmt::format(":{}", stride);
    begin = end;
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

// Uses the first form that fits: the list, runs, or a count with a hash. members_of() cannot parse
// the last form.
std::string list_of(const std::vector<int>& ranks) {
  std::string plain = fmt::format("{{{}}}", fmt::join(ranks, ", "));
  if (plain.size() <= kLongestPlain) return plain;
  std::string runs = in_runs(ranks);
  if (runs.size() <= kLongest) return runs;
  const std::uint64_t hash = Hash().add_bytes(ranks.data(), ranks.size() * sizeof(int)).value();
  return fmt::format("{{{} ranks, {:08x}}}", ranks.size(), hash & 0xffffffff);
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number);
  if (status != std::errc{} || number < 0) return std::nullopt;
  text = {rest, static_cast<std::size_t>(end - rest)};
  return number;
}

// Removes a rank or a run of ranks from the front of `text` and adds the ranks to `members`.
// Rejects long runs, because names in files of the flight recorder may be damaged.
bool take_run(std::string_view& text, std::vector<int>& members) {
  const auto first = take_number(text);
  const bool is_run = first && take(text, "-");
  const auto last = is_run ? take_number(text) : first;
  const auto stride = is_run && take(text, ":") ? take_number(text) : 1;
  if (!first || !last || !stride || *stride < 1 || *last < *first ||
      (*last - *first) / *stride >= kMostMembers)
    return false;
  for (std::int64_t rank = *first; rank <= *last; rank += *stride)
    members.push_back(static_cast<int>(rank));
  return true;
}

}  // namespace

std::string name_of_set(const std::vector<int>& ranks, int number) {
  return number == 1 ? list_of(ranks) : fmt::format("{}#{}", list_of(ranks), number);
}

std::optional<std::vector<int>> members_of(std::string_view process_set) {
  std::vector<int> members;
  if (!take(process_set, "{")) return std::nullopt;
  do {
    if (!take_run(process_set, members)) return std::nullopt;
  } while (take(process_set, ", "));
  if (!take(process_set, "}")) return std::nullopt;
  if (take(process_set, "#") && !take_number(process_set)) return std::nullopt;
  if (!process_set.empty()) return std::nullopt;
  return members;
}

std::vector<int> Topology::ranks_of(int node_index) const {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r)
    if (node_of[r] == node_index) ranks.push_back(r);
  return ranks;
}

int Topology::smallest_node() const {
  std::vector<int> sizes(node_count, 0);
  for (int n : node_of) ++sizes[n];
  return *std::min_element(sizes.begin(), sizes.end());
}

std::string Topology::describe(int other_rank) const {
  return fmt::format("rank {} (host {})", job_rank(other_rank), host_of[node_of[other_rank]]);
}

std::string Topology::set_name() const {
  return job_rank_of.empty() ? std::string() : name_of_set(job_rank_of, set_number);
}

Topology Topology::subset(const std::vector<int>& members, int number) const {
  const auto own = std::find(members.begin(), members.end(), rank);
  HORO_CHECK(own != members.end(), "a subset must contain this rank");
  std::vector<std::string> keys;
  std::vector<std::string> hosts;
  std::vector<int> job_ranks;
  for (const int member : members) {
    keys.push_back(std::to_string(node_of[member]));
    hosts.push_back(host_of[node_of[member]]);
    job_ranks.push_back(job_rank(member));
  }
  Topology topology = make_topology(static_cast<int>(own - members.begin()), keys, hosts);
  topology.job_rank_of = std::move(job_ranks);
  topology.set_number = number;
  return topology;
}

// All ranks pass the same keys, so they compute the same numbers without communication. Nodes are
// numbered in the order of their first rank.
Topology make_topology(int rank, const std::vector<std::string>& key_of_rank,
                       const std::vector<std::string>& host_of_rank) {
  HORO_CHECK(!key_of_rank.empty() && key_of_rank.size() == host_of_rank.size(),
             fmt::format("{} node keys and {} hosts; one of each per rank is required",
                         key_of_rank.size(), host_of_rank.size()));
  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<int>(key_of_rank.size());
  topology.node_of.assign(topology.size, 0);
  topology.host_of.clear();
  std::unordered_map<std::string, int> node_of_key;
  for (int r = 0; r < topology.size; ++r) {
    auto [it, is_new] =
        node_of_key.try_emplace(key_of_rank[r], static_cast<int>(topology.host_of.size()));
    if (is_new) topology.host_of.push_back(host_of_rank[r]);
    topology.node_of[r] = it->second;
  }
  topology.node = topology.node_of[rank];
  topology.node_count = static_cast<int>(topology.host_of.size());
  const std::vector<int> local = topology.ranks_of(topology.node);
  topology.local_size = static_cast<int>(local.size());
  topology.local_rank =
      static_cast<int>(std::find(local.begin(), local.end(), rank) - local.begin());
  return topology;
}

}  // namespace horo

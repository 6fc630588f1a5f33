#pragma once

#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// Returns the name of a process set in messages and the flight recorder. It lists the ranks in the
/// job, ascending: "{0, 2}". A long list is written as runs of ranks: "{0-63, 70-90:2}" (70, 72,
/// ... 90). If several sets have the same ranks, the second one is "{0, 2}#2". A list of more than
/// 56 bytes is replaced by a count and a hash, "{61 ranks, 6f1c0a95}".
std::string name_of_set(const std::vector<int>& ranks, int number = 1);

/// Returns the ranks that the name of a process set lists, or nullopt if the name has no list.
std::optional<std::vector<int>> members_of(std::string_view process_set);

/// The placement of the ranks of a group, which is a job or a process set. A node is a set of ranks
/// that share memory. Nodes are numbered in the order of their lowest rank, and ranks within a node
/// in rank order.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int node = 0;
  int node_count = 1;
  /// node_of[r]: the node of rank r. Length `size`.
  std::vector<int> node_of{0};
  /// host_of[n]: the host name of node n. Length `node_count`.
  std::vector<std::string> host_of{"localhost"};
  /// job_rank_of[r]: the rank in the job of rank r of this group. Length `size`; empty if the group
  /// is the job.
  std::vector<int> job_rank_of{};
  /// Distinguishes process sets with the same ranks: 1, 2, ...
  int set_number = 1;

  /// Ranks of `node_index`, ascending.
  std::vector<int> ranks_of(int node_index) const;
  /// The smallest number of ranks on any node.
  int smallest_node() const;
  /// The rank in the job of the rank `other_rank` of this group.
  int job_rank(int other_rank) const {
    return job_rank_of.empty() ? other_rank : job_rank_of[static_cast<std::size_t>(other_rank)];
  }
  /// Returns the name of a rank in messages, with its rank in the job, such as "rank 3 (host b)".
  std::string describe(int other_rank) const;
  /// Whether this group is a process set of the job.
  bool is_subset() const { return !job_rank_of.empty(); }
  /// See name_of_set(). Empty if the group is the job.
  std::string set_name() const;
  /// The topology of the ranks `members` of this group, which are renumbered 0, 1, ... `members`
  /// must be ascending and include this rank. Ranks on the same node stay on the same node.
  Topology subset(const std::vector<int>& members, int number = 1) const;
};

/// Builds the topology seen by `rank` from the node key of every rank. Ranks with equal keys are on
/// the same node.
Topology make_topology(int rank, const std::vector<std::string>& key_of_rank,
                       const std::vector<std::string>& host_of_rank);

/// The names of `ranks` in errors, in the same order.
inline std::vector<std::string> names_of(const Topology& topology, const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(topology.describe(rank));
  return names;
}

/// The same for all ranks of the group.
inline std::vector<std::string> names_of(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return names_of(topology, ranks);
}

}  // namespace horo

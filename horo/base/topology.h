#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace horo {

/// Where the ranks of a job sit. A node is a set of ranks that can share memory; nodes are numbered
/// in the order of their lowest rank, and ranks within a node in rank order.
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
  /// job_rank_of[r]: what rank r of this group is called in the job. Length `size`; empty: the same
  /// number, the group is the job.
  std::vector<int> job_rank_of{};
  /// Tells process sets with the same ranks apart: 1, 2, ...
  int set_number = 1;

  /// Ranks of `node_index`, ascending.
  std::vector<int> ranks_of(int node_index) const;
  /// The smallest number of ranks on any node.
  int smallest_node() const;
  /// The number in the job of `other_rank`.
  int job_rank(int other_rank) const {
    return job_rank_of.empty() ? other_rank : job_rank_of[static_cast<std::size_t>(other_rank)];
  }
  /// "rank 3 (host b)": how a rank is named in messages, by its number in the job.
  std::string describe(int other_rank) const;
  /// Whether this is a process set of the job.
  bool is_subset() const { return !job_rank_of.empty(); }
  /// See name_of_set(); empty: this is the job.
  std::string set_name() const;
  /// The topology of `members` (ascending, this rank among them), which are renumbered 0, 1, ...;
  /// who shares a node stays.
  Topology subset(const std::vector<int>& members, int number = 1) const;
};

/// Builds the topology seen by `rank` from the node key of every rank (equal keys: same node).
Topology make_topology(int rank, const std::vector<std::string>& key_of_rank,
                       const std::vector<std::string>& host_of_rank);

}  // namespace horo

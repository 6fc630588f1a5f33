#include "horo/base/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "horo/base/error.h"
#include "horo/base/set_name.h"

namespace horo {

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
  HORO_CHECK(own != members.end(), "a rank that is not in a group has no place in it");
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

Topology make_topology(int rank, const std::vector<std::string>& key_of_rank,
                       const std::vector<std::string>& host_of_rank) {
  HORO_CHECK(!key_of_rank.empty() && key_of_rank.size() == host_of_rank.size(), "");
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

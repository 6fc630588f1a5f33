#include "collectives/rank_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace horo::collectives {
namespace {

constexpr int kGatherTag = 1;
constexpr int kResultTag = 2;

}  // namespace

PeerGroup::PeerGroup(PointToPoint& peers, std::vector<int> members)
    : peers_(peers),
      members_(std::move(members)),
      rank_(static_cast<int>(std::ranges::find(members_, peers.rank()) - members_.begin())) {}

// The first member collects the bytes and sends them to the others.
std::vector<std::byte> PeerGroup::gather(std::span<const std::byte> own, std::string_view what) {
  std::vector<std::byte> all(own.size() * members_.size());
  std::vector<PointToPoint::Ticket> tickets;
  const auto wait_for_all = [&] {
    for (const PointToPoint::Ticket ticket : std::exchange(tickets, {})) peers_.wait(ticket, what);
  };
  if (rank_ > 0) {
    tickets = {peers_.start_send(members_.front(), kGatherTag, own),
               peers_.start_receive(members_.front(), kResultTag, all)};
    wait_for_all();
    return all;
  }
  std::ranges::copy(own, all.begin());
  for (std::size_t i = 1; i < members_.size(); ++i)
    tickets.push_back(peers_.start_receive(members_[i], kGatherTag,
                                           std::span(all).subspan(i * own.size(), own.size())));
  wait_for_all();
  for (std::size_t i = 1; i < members_.size(); ++i)
    tickets.push_back(peers_.start_send(members_[i], kResultTag, all));
  wait_for_all();
  return all;
}

Topology gather_topology(RankGroup& group, std::uint64_t node_key, std::string_view host,
                         std::size_t ranks_per_node) {
  // Each rank sends its own block, so that all ranks get the same topology even if their settings
  // differ, which init() reports later.
  struct Record {
    std::uint64_t node_key = 0;
    std::uint64_t block = 0;
    char host[256] = {};
  };
  Record own{.node_key = node_key};
  if (ranks_per_node > 0) own.block = static_cast<std::uint64_t>(group.rank()) / ranks_per_node;
  host.copy(own.host, sizeof own.host - 1);
  const std::vector<Record> records =
      group.gather_values(own, "for all ranks to exchange the topology");

  std::vector<std::string> keys;
  std::vector<std::string> hosts;
  for (const Record& record : records) {
    keys.push_back(fmt::format("{}/{}", record.node_key, record.block));
    hosts.emplace_back(record.host);
  }
  return make_topology(group.rank(), keys, hosts);
}

}  // namespace horo::collectives

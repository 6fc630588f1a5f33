#include "collectives/sockets/socket_transport.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/collectives.h"
#include "collectives/sockets/socket_message_channel.h"
#include "horo/base/hash.h"

namespace horo::collectives {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::shared_ptr<SocketMesh> make_mesh(RankGroup& ranks, std::span<const std::string> interfaces) {
  auto mesh = std::make_shared<SocketMesh>(interfaces);
  mesh->address_of = ranks.gather_values(mesh->listener.address(), kWaitForAllRanks);
  return mesh;
}

std::vector<int> every_rank_of(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

SocketTransport::SocketTransport(RankGroup& ranks, const WaitPolicy& policy,
                                 std::size_t ranks_per_node,
                                 std::span<const std::string> interfaces)
    : ProcessTransport(policy), mesh_(make_mesh(ranks, interfaces)) {
  topology_ =
      gather_topology(ranks, mesh_->listener.address().node_key, host_name(), ranks_per_node);
  make_groups();
  share_abort_signal();
}

SocketTransport::SocketTransport(const SocketTransport& parent, Topology topology, std::uint64_t id)
    : ProcessTransport(parent, std::move(topology)), mesh_(parent.mesh_), id_(id) {
  make_groups();
}

void SocketTransport::make_groups() {
  control_ = std::make_unique<SocketPointToPoint>(mesh_, topology_, next_stream(), policy_);
  all_.emplace(*control_, every_rank_of(topology_));
  node_.emplace(*control_, topology_.ranks_of(topology_.node));
}

StreamId SocketTransport::next_stream() { return Hash().add(id_).add(objects_++).value(); }

std::unique_ptr<PointToPoint> SocketTransport::make_point_to_point() {
  return std::make_unique<SocketPointToPoint>(mesh_, topology_, next_stream(), policy_);
}

std::unique_ptr<MessageChannel> SocketTransport::make_message_channel() {
  return std::make_unique<SocketMessageChannel>(mesh_, topology_, next_stream());
}

std::unique_ptr<Collectives> SocketTransport::make_reference_collectives() { return nullptr; }

// Ranks that are not members also take the number of the subset.
std::unique_ptr<Transport> SocketTransport::make_subset(const std::vector<int>& members,
                                                        int number) {
  const StreamId id = next_stream();
  if (std::ranges::find(members, topology_.rank) == members.end()) return nullptr;
  return std::unique_ptr<Transport>(
      new SocketTransport(*this, topology_.subset(members, number), id));
}

}  // namespace horo::collectives

#include "collectives/sockets/socket_transport.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/collectives.h"
#include "collectives/node_memory/node_region.h"
#include "collectives/sockets/socket_message_channel.h"
#include "horo/base/hash.h"

namespace horo::collectives {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::shared_ptr<SocketMesh> make_mesh(RankGroup& ranks) {
  auto mesh = std::make_shared<SocketMesh>();
  mesh->address_of = ranks.gather_values(mesh->listener.address(),
                                         "in horo::init() for ranks that have not called it or "
                                         "cannot be reached: check whether they run, what they do "
                                         "before init(), and the network between the hosts");
  return mesh;
}

// The constructor waits for other ranks before the abort signal exists. These waits therefore check
// no signal.
WaitPolicy without_abort(WaitPolicy policy) {
  policy.abort = nullptr;
  return policy;
}

std::vector<int> all_ranks(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

SocketTransport::SocketTransport(RankGroup& ranks, const WaitPolicy& policy,
                                 std::size_t ranks_per_node)
    : policy_(without_abort(policy)),
      mesh_(make_mesh(ranks)),
      topology_(
          gather_topology(ranks, mesh_->listener.address().node_key, host_name(), ranks_per_node)),
      control_(std::make_unique<SocketPointToPoint>(mesh_, topology_, next_stream(), policy_)) {
  all_.emplace(*control_, all_ranks(topology_));
  node_.emplace(*control_, topology_.ranks_of(topology_.node));
  abort_region_ = NodeRegion::create(*node_, sizeof(AbortSignal));
  abort_signal_ = reinterpret_cast<AbortSignal*>(abort_region_->bytes().data());
  policy_.abort = abort_signal_;
}

SocketTransport::SocketTransport(const SocketTransport& parent, Topology topology, std::uint64_t id)
    : policy_(parent.policy_),
      mesh_(parent.mesh_),
      topology_(std::move(topology)),
      id_(id),
      control_(std::make_unique<SocketPointToPoint>(mesh_, topology_, next_stream(), policy_)),
      abort_region_(parent.abort_region_),
      abort_signal_(parent.abort_signal_) {
  all_.emplace(*control_, all_ranks(topology_));
  node_.emplace(*control_, topology_.ranks_of(topology_.node));
}

void SocketTransport::set_wait_policy(const WaitPolicy& policy) {
  policy_ = policy;
  policy_.abort = abort_signal_;
}

StreamId SocketTransport::next_stream() { return Hash().add(id_).add(objects_++).value(); }

std::unique_ptr<PointToPoint> SocketTransport::make_point_to_point() {
  return std::make_unique<SocketPointToPoint>(mesh_, topology_, next_stream(), policy_);
}

std::unique_ptr<MessageChannel> SocketTransport::make_message_channel() {
  return std::make_unique<SocketMessageChannel>(mesh_, topology_, next_stream());
}

std::unique_ptr<SharedRegion> SocketTransport::make_node_region(std::size_t bytes) {
  return NodeRegion::create_on_nodes(*all_, *node_, topology_, bytes);
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

void SocketTransport::abort(const char* text) noexcept { abort_signal_->raise(text); }

}  // namespace horo::collectives

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "collectives/process_transport.h"
#include "collectives/sockets/socket_mesh.h"
#include "collectives/sockets/socket_point_to_point.h"

namespace horo::collectives {

/// The transport between processes that are connected by horo's own sockets: Unix sockets on one
/// node, TCP between nodes. Each object has connections of its own, one per direction and peer,
/// which are opened when they are first used. Ranks share memory as with MpiTransport.
class SocketTransport : public ProcessTransport {
 public:
  /// Collective over `ranks`, through which the ranks exchange their addresses. The transport does
  /// not use `ranks` afterwards. Copies `policy` and replaces its `abort` by a signal in memory
  /// that the ranks of the node share. Ranks on one host in one network namespace share memory. See
  /// gather_topology() for `ranks_per_node`, and host_addresses() for `interfaces`. Throws
  /// CommunicationError if this process cannot open sockets.
  SocketTransport(RankGroup& ranks, const WaitPolicy& policy, std::size_t ranks_per_node,
                  std::span<const std::string> interfaces = {});

  std::unique_ptr<PointToPoint> make_point_to_point() override;
  std::unique_ptr<MessageChannel> make_message_channel() override;
  std::unique_ptr<Collectives> make_reference_collectives() override;
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override;

 private:
  // Makes a transport of some ranks of `parent`.
  SocketTransport(const SocketTransport& parent, Topology topology, std::uint64_t id);
  RankGroup& all_ranks() override { return *all_; }
  RankGroup& ranks_of_node() override { return *node_; }
  void make_groups();
  StreamId next_stream();

  std::shared_ptr<SocketMesh> mesh_;
  // The number of this transport, and of the objects that it has made. All ranks make objects in
  // the same order, so equal numbers identify the same object.
  std::uint64_t id_ = 0, objects_ = 0;
  std::unique_ptr<SocketPointToPoint> control_;  // of the groups
  std::optional<PeerGroup> all_, node_;
};

}  // namespace horo::collectives

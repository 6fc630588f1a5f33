#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/sockets/socket_transport.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {

/// What carries the messages of a test.
enum class Carrier { kUnixSockets, kTcp };

/// Runs function(group, rank) on threads. The ranks of `group` are all threads.
inline void run_groups(int ranks, const std::function<void(RankGroup&, int)>& function) {
  contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    PeerGroup group(*peers, members);
    function(group, rank);
  });
}

/// Makes the mesh of this rank. With kTcp, the ranks publish that they are on other nodes, and an
/// address that cannot be used before the one that can.
inline std::shared_ptr<SocketMesh> make_mesh(RankGroup& group, Carrier carrier) {
  auto mesh = std::make_shared<SocketMesh>();
  RankAddress own = mesh->listener.address();
  if (carrier == Carrier::kTcp) {
    ++own.node_key;
    own.tcp.set_addresses(std::vector<std::string>{"no address", "127.0.0.1"});
  }
  mesh->address_of = group.gather_values(own, "for the addresses");
  return mesh;
}

/// A rank that is a thread: its mesh, and the topology of a job on one node.
struct SocketRank {
  std::shared_ptr<SocketMesh> mesh;
  Topology topology;
  WaitPolicy policy;

  std::unique_ptr<SocketPointToPoint> peers(StreamId stream) const {
    return std::make_unique<SocketPointToPoint>(mesh, topology, stream, policy);
  }
};

/// Runs `function` on a thread for each rank. The ranks are connected when it starts, and none ends
/// before all have returned from it.
inline void run_socket_ranks(int ranks, Carrier carrier,
                             const std::function<void(SocketRank&)>& function) {
  run_groups(ranks, [&](RankGroup& group, int rank) {
    const std::vector<std::string> keys(static_cast<std::size_t>(ranks), "a");
    SocketRank own{make_mesh(group, carrier), make_topology(rank, keys, keys), {}};
    own.policy.timeout = std::chrono::seconds(60);
    function(own);
    group.gather_values(rank, "for the end of the test");
  });
}

}  // namespace horo::collectives

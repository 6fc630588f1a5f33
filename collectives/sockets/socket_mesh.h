#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/sockets/outgoing_stream.h"
#include "collectives/sockets/socket_listener.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// The sockets of a rank of a job: its listener, and the addresses of all ranks. Transports of the
/// job and of its subsets share it. Thread-safe.
struct SocketMesh {
  /// See SocketListener for `interfaces`.
  explicit SocketMesh(std::span<const std::string> interfaces = {}) : listener(interfaces) {}

  SocketListener listener;
  std::vector<RankAddress> address_of;  ///< by rank in the job
};

/// The ends of one stream between the ranks of a group, with the ranks of the group. Streams are
/// independent of each other. Only one thread at a time may use an object.
class SocketStream {
 public:
  /// `topology` is the group. All ranks of the group must pass the same `id`, which no other stream
  /// of the job may have.
  SocketStream(std::shared_ptr<SocketMesh> mesh, const Topology& topology, StreamId id);
  ~SocketStream();
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;

  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }
  /// Returns a connection from this rank to `peer`, which is opened with its first message.
  OutgoingStream to(int peer) const;
  /// Returns a connection that another rank has opened, with the rank in the group, or nullopt if
  /// there is no new one.
  std::optional<Inbox::Connection> accept();
  SocketListener& listener() const { return mesh_->listener; }
  /// See Topology::describe().
  std::string describe(int peer) const { return topology_.describe(peer); }

 private:
  std::shared_ptr<SocketMesh> mesh_;
  Topology topology_;
  StreamId id_;
  std::shared_ptr<Inbox> inbox_;
};

}  // namespace horo::collectives

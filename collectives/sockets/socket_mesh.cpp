#include "collectives/sockets/socket_mesh.h"

#include <utility>

namespace horo::collectives {

SocketStream::SocketStream(std::shared_ptr<SocketMesh> mesh, const Topology& topology, StreamId id)
    : mesh_(std::move(mesh)), topology_(topology), id_(id), inbox_(mesh_->listener.open(id)) {}

SocketStream::~SocketStream() { mesh_->listener.close(id_); }

OutgoingStream SocketStream::to(int peer) const {
  const auto job_rank = static_cast<std::size_t>(topology_.job_rank(peer));
  const RankAddress& address = mesh_->address_of[job_rank];
  return OutgoingStream(
      {.address = address,
       .is_local = address.node_key == mesh_->listener.address().node_key,
       .greeting = {
           .secret = address.secret[0], .stream = id_, .source = topology_.rank, .unused = 0}});
}

std::optional<Inbox::Connection> SocketStream::accept() {
  while (auto connection = inbox_->take())
    if (connection->source >= 0 && connection->source < topology_.size) return connection;
  return std::nullopt;
}

}  // namespace horo::collectives

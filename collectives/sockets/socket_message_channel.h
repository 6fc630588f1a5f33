#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/sockets/incoming_stream.h"
#include "collectives/sockets/socket_mesh.h"
#include "collectives/transport.h"

namespace horo::collectives {

/// Control messages over sockets. Drops messages to a rank that has closed its connection, because
/// such a rank has ended.
class SocketMessageChannel : public MessageChannel, private UnsentMessages {
 public:
  /// See SocketStream. Throws CommunicationError if the process has no free file descriptor.
  SocketMessageChannel(std::shared_ptr<SocketMesh> mesh, const Topology& topology, StreamId id);
  /// Waits up to one second for messages that the kernel has not accepted.
  ~SocketMessageChannel() override;

  int rank() const override { return stream_.rank(); }
  int size() const override { return stream_.size(); }
  void send(int destination, std::span<const std::byte> bytes) override;
  std::optional<Message> poll() override;

 private:
  struct Source {
    int rank = 0;
    IncomingStream in;
    std::optional<std::vector<std::byte>> bytes;  // of the message that is arriving
  };

  bool send_rest() override;
  void accept_sources();
  std::optional<Message> receive_from(Source& source);

  SocketStream stream_;
  // Guards the next two members: the listener's thread sends what send() could not send at once,
  // because the thread that has called send() may wait for the effect of the message.
  std::mutex sending_mutex_;
  std::vector<std::unique_ptr<OutgoingStream>> out_;  // by destination; null without a message
  std::vector<int> sending_;                          // the destinations with messages in flight
  FileDescriptor readable_;                           // an epoll instance of all sources
  std::list<Source> sources_;
  std::deque<Message> received_;
};

}  // namespace horo::collectives

#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "collectives/sockets/outgoing_stream.h"
#include "horo/base/system/file_descriptor.h"

namespace horo::collectives {

/// The messages of one stream from another rank to this rank, over one connection. No function
/// blocks. Only one thread at a time may use an object.
class IncomingStream {
 public:
  explicit IncomingStream(FileDescriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  /// Receives the header of the next message. Returns it as soon as it is complete, and again until
  /// finish_message(); null before.
  const MessageHeader* receive_header();
  /// Receives the bytes of the message into `bytes`, which must have the size in its header and be
  /// the same in every call for a message. Returns whether all bytes were received.
  bool receive_bytes(std::span<std::byte> bytes);
  /// Continues with the next message.
  void finish_message();
  /// Whether the peer has closed the connection, or the connection has failed.
  bool is_closed() const { return !failure_.empty(); }
  /// Why no further message can be received; empty if the connection is open.
  const std::string& failure() const { return failure_; }

 private:
  bool fill(std::byte* to, std::size_t wanted, std::size_t& received);

  FileDescriptor socket_;
  MessageHeader header_;
  std::size_t header_bytes_ = 0, received_ = 0;
  std::string failure_;
};

}  // namespace horo::collectives

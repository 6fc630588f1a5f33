#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/system/file_descriptor.h"

namespace horo::observe {

using horo::FileDescriptor;

/// Creates a socket that listens on `port`, or on any free port if `port` is 0. Listens on the
/// loopback interface by IPv4 if `loopback_only`. Otherwise listens on all interfaces, also by IPv6
/// if the system supports IPv6. Returns an empty descriptor on failure.
FileDescriptor listen_on_tcp(bool loopback_only, std::uint16_t port = 0);
std::uint16_t port_of(const FileDescriptor& listener);

/// A TCP connection that carries frames. A frame is a 32-bit length, followed by that many bytes.
/// Never blocks: bytes that cannot be sent or received yet are handled by later calls. Used by one
/// thread.
class FrameSocket {
 public:
  /// Wraps an accepted connection. A received frame of more than `max_frame` bytes closes the
  /// connection.
  FrameSocket(FileDescriptor socket, std::size_t max_frame);
  /// Starts to connect to `address` (IPv4 or IPv6, as text). Returns nullopt if the attempt fails
  /// at once.
  static std::optional<FrameSocket> connect(const std::string& address, std::uint16_t port,
                                            std::size_t max_frame);

  /// Whether the connection is open or is being established. May still be true after the peer has
  /// failed.
  bool is_open() const { return is_open_; }
  void close() { is_open_ = false; }
  /// Changes the limit for frames that are received or sent from now on.
  void set_max_frame(std::size_t max_frame) { max_frame_ = max_frame; }
  /// Sends a frame. Bytes that cannot be sent yet are sent by later calls. The frame is dropped if
  /// more than `max_frame` bytes are already queued.
  void send(std::span<const std::byte> frame);
  /// Returns the next frame, or nullopt if the next frame has not been received completely.
  std::optional<std::vector<std::byte>> receive();

 private:
  bool is_connected();
  void flush();
  void fill();
  std::optional<std::vector<std::byte>> take_frame();

  FileDescriptor socket_;
  std::size_t max_frame_;
  bool is_open_ = true;
  bool is_connecting_ = false;
  std::vector<std::byte> unsent_;
  std::vector<std::byte> received_;
};

}  // namespace horo::observe

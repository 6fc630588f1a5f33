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

/// A TCP connection that carries frames. A frame is a 32-bit length in the byte order of the
/// machine, followed by that many bytes. No function blocks: later calls of send() and receive()
/// transfer the bytes that cannot be transferred yet. Used by one thread at a time.
class FrameSocket {
 public:
  /// Takes over the non-blocking socket of an accepted connection. Receiving a frame of more than
  /// `max_frame` bytes closes the connection.
  FrameSocket(FileDescriptor socket, std::size_t max_frame);
  /// Starts to connect to `address`, a numeric IPv4 or IPv6 address. Returns nullopt if `address`
  /// is invalid or the attempt fails at once.
  static std::optional<FrameSocket> connect(const std::string& address, std::uint16_t port,
                                            std::size_t max_frame);

  /// Whether the connection is open or is being established. May still be true after the peer has
  /// failed.
  bool is_open() const { return is_open_; }
  /// Makes is_open() false. The destructor closes the socket.
  void close() { is_open_ = false; }
  /// Changes `max_frame` for later calls.
  void set_max_frame(std::size_t max_frame) { max_frame_ = max_frame; }
  /// Sends a frame, or queues the bytes that cannot be sent yet. Drops the frame if the connection
  /// is closed or if more than `max_frame` bytes are already queued.
  void send(std::span<const std::byte> frame);
  /// Returns the next frame. Returns nullopt if the next frame is too long or has not been received
  /// completely.
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

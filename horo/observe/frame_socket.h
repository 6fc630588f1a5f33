#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/file_descriptor.h"

namespace horo::observe {

using horo::FileDescriptor;

/// A socket that listens on `port` (0: any free one), on the loopback only or on all interfaces,
/// IPv6 ones too where the system has them. None if it cannot be had.
FileDescriptor listen_on_tcp(bool loopback_only, std::uint16_t port = 0);
std::uint16_t port_of(const FileDescriptor& listener);

/// A TCP connection that carries frames of bytes and never blocks: what cannot be sent or has not
/// come yet waits for the next call. Used by one thread.
class FrameSocket {
 public:
  /// Of a connection that has been accepted. A frame of more than `max_frame` bytes ends it.
  FrameSocket(FileDescriptor socket, std::size_t max_frame);
  /// Begins to connect; nullopt if `address` (IPv4 or IPv6 as text) cannot even be tried.
  static std::optional<FrameSocket> connect(const std::string& address, std::uint16_t port,
                                            std::size_t max_frame);

  /// Whether the other end is still there, as far as is known here.
  bool is_open() const { return is_open_; }
  void close() { is_open_ = false; }
  /// From now on.
  void set_max_frame(std::size_t max_frame) { max_frame_ = max_frame; }
  /// Sends a frame, or as much of it as goes; the rest with the next calls. Frames are dropped
  /// while `max_frame` bytes wait already.
  void send(std::span<const std::byte> frame);
  /// The next frame that has come, if any.
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

#include "horo/watchdog/frame_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "horo/base/system/sockets.h"

namespace horo::observe {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t);

}  // namespace

FrameSocket::FrameSocket(FileDescriptor socket, std::size_t max_frame)
    : socket_(std::move(socket)), max_frame_(max_frame) {}

std::optional<FrameSocket> FrameSocket::connect(const std::string& address, std::uint16_t port,
                                                std::size_t max_frame) {
  FileDescriptor made = start_connection(address, port);
  if (!made.is_open()) return std::nullopt;
  FrameSocket result(std::move(made), max_frame);
  result.is_connecting_ = true;
  return result;
}

bool FrameSocket::is_connected() {
  if (!is_open_ || !is_connecting_) return is_open_;
  const std::optional<int> error = connection_result(socket_);
  if (!error) return false;
  is_connecting_ = false;
  is_open_ = *error == 0;
  return is_open_;
}

// Drops whole frames only, so that the stream remains a sequence of frames. Even if the peer stops
// reading, unsent_ holds at most max_frame_ bytes and one further frame with its header.
void FrameSocket::send(std::span<const std::byte> frame) {
  if (is_open_ && unsent_.size() <= max_frame_) {
    const auto length = static_cast<std::uint32_t>(frame.size());
    const auto* header = reinterpret_cast<const std::byte*>(&length);
    unsent_.insert(unsent_.end(), header, header + kHeaderBytes);
    unsent_.insert(unsent_.end(), frame.begin(), frame.end());
  }
  flush();
}

void FrameSocket::flush() {
  if (!is_connected()) return;
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t n =
        ::send(socket_.get(), unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) is_open_ = false;
    if (n < 0) break;
    sent += static_cast<std::size_t>(n);
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent));
}

void FrameSocket::fill() {
  flush();
  if (!is_connected()) return;
  std::byte buffer[16 * 1024];
  // Limits the size of received_, so that a peer that sends without end cannot exhaust the memory.
  const std::size_t most = 2 * (max_frame_ + kHeaderBytes);
  while (received_.size() < most) {
    const std::size_t room = std::min(sizeof buffer, most - received_.size());
    const ssize_t n = recv(socket_.get(), buffer, room, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) is_open_ = false;
    if (n <= 0) return;
    received_.insert(received_.end(), buffer, buffer + n);
  }
}

std::optional<std::vector<std::byte>> FrameSocket::receive() {
  if (auto frame = take_frame()) return frame;
  fill();
  return take_frame();
}

// Checks the length before the frame is allocated, because the peer may be unauthenticated.
std::optional<std::vector<std::byte>> FrameSocket::take_frame() {
  if (received_.size() < kHeaderBytes) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, received_.data(), kHeaderBytes);
  if (length > max_frame_) {
    is_open_ = false;
    received_.clear();
    return std::nullopt;
  }
  if (received_.size() - kHeaderBytes < length) return std::nullopt;
  const auto begin = received_.begin() + kHeaderBytes;
  std::vector<std::byte> frame(begin, begin + length);
  received_.erase(received_.begin(), begin + length);
  return frame;
}

}  // namespace horo::observe

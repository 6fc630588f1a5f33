#include "horo/watchdog/frame_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace horo::observe {
namespace {

constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kBacklog = 128;
constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t);

// An IPv4 or IPv6 socket address, in the form that system calls expect.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address make_address(const in_addr& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr = host;
  Address result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.length = sizeof address;
  return result;
}

Address make_address(const in6_addr& host, std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = host;
  Address result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.length = sizeof address;
  return result;
}

std::optional<Address> parse_address(const std::string& text, std::uint16_t port) {
  in_addr ipv4{};
  if (inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return make_address(ipv4, port);
  in6_addr ipv6{};
  if (inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) return make_address(ipv6, port);
  return std::nullopt;
}

// Turns IPV6_V6ONLY off, so that an IPv6 socket also accepts IPv4 connections.
FileDescriptor listen_at(const Address& address) {
  FileDescriptor listener(socket(address.storage.ss_family, SOCK_STREAM | kSocketFlags, 0));
  if (listener.get() < 0) return listener;
  const int no = 0;
  if (address.storage.ss_family == AF_INET6 &&
      setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0)
    return FileDescriptor();
  if (bind(listener.get(), address.get(), address.length) != 0 ||
      listen(listener.get(), kBacklog) != 0)
    return FileDescriptor();
  return listener;
}

}  // namespace

FileDescriptor listen_on_tcp(bool loopback_only, std::uint16_t port) {
  if (!loopback_only) {
    FileDescriptor both = listen_at(make_address(in6addr_any, port));
    if (both.get() >= 0) return both;
  }
  in_addr host{};
  host.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  return listen_at(make_address(host, port));
}

std::uint16_t port_of(const FileDescriptor& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  // sin_port and sin6_port have the same offset in their structures.
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &address, sizeof ipv4);
  return ntohs(ipv4.sin_port);
}

FrameSocket::FrameSocket(FileDescriptor socket, std::size_t max_frame)
    : socket_(std::move(socket)), max_frame_(max_frame) {}

std::optional<FrameSocket> FrameSocket::connect(const std::string& address, std::uint16_t port,
                                                std::size_t max_frame) {
  const auto parsed = parse_address(address, port);
  if (!parsed) return std::nullopt;
  FileDescriptor made(socket(parsed->storage.ss_family, SOCK_STREAM | kSocketFlags, 0));
  if (made.get() < 0) return std::nullopt;
  const bool is_done = ::connect(made.get(), parsed->get(), parsed->length) == 0;
  if (!is_done && errno != EINPROGRESS) return std::nullopt;
  FrameSocket result(std::move(made), max_frame);
  result.is_connecting_ = !is_done;
  return result;
}

// A non-blocking connect() has finished when poll() reports an event. SO_ERROR then holds the
// result of connect().
bool FrameSocket::is_connected() {
  if (!is_open_ || !is_connecting_) return is_open_;
  pollfd events{socket_.get(), POLLOUT, 0};
  if (poll(&events, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  is_connecting_ = false;
  is_open_ = error == 0;
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

#include "collectives/sockets/outgoing_stream.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace horo::collectives {
namespace {

// The peer may be stopped, or its network may drop packets.
constexpr auto kTimePerAddress = std::chrono::seconds(5);
// The messages of one system call. Small messages are sent together.
constexpr std::size_t kMessagesPerCall = 8;

bool is_try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void OutgoingStream::push(int tag, std::span<const std::byte> bytes) {
  queue_.push_back({{bytes.size(), tag, 0}, bytes, {}});
}

void OutgoingStream::push(int tag, std::vector<std::byte> bytes) {
  Message& message = queue_.emplace_back();
  message.owned = std::move(bytes);
  message.bytes = message.owned;
  message.header = {message.bytes.size(), tag, 0};
}

void OutgoingStream::progress() {
  if (queue_.empty() || !failure_.empty()) return;
  if (state_ == State::kOpen || advance_connection()) send_queue();
}

void OutgoingStream::start() {
  addresses_ =
      target_.is_local ? std::vector<std::string>{"its node"} : target_.address.tcp.address_list();
  std::ranges::reverse(addresses_);  // the next one is the last
  try_next_address(EADDRNOTAVAIL);
}

// `error` is the reason why the attempt before has failed.
void OutgoingStream::try_next_address(int error) {
  while (!addresses_.empty()) {
    tried_ = std::move(addresses_.back());
    addresses_.pop_back();
    started_ = Clock::now();
    socket_ = target_.is_local ? start_local_connection(target_.address)
                               : start_connection(tried_, target_.address.tcp.port);
    if (!socket_.is_open() && target_.is_local && is_try_again(errno)) {
      state_ = State::kClosed;  // the queue of the peer's socket is full
      return;
    }
    if (!socket_.is_open()) {
      error = errno;
      continue;
    }
    if (!target_.is_local) {
      const int on = 1;
      setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    state_ = State::kConnecting;
    return;
  }
  failure_ = target_.is_local
                 ? fmt::format("cannot connect to it: {}", std::strerror(error))
                 : fmt::format(
                       "cannot connect to it at {} port {}: {}; check the network and the "
                       "firewall between the hosts",
                       tried_, target_.address.tcp.port, std::strerror(error));
}

// Returns whether the connection is open. A connection is open when the reply to the greeting was
// received: another process may listen at the address, because hosts may have equal addresses in
// networks of their own.
bool OutgoingStream::advance_connection() {
  if (state_ == State::kClosed) start();
  while (failure_.empty() && state_ != State::kClosed) {
    const bool is_late = Clock::now() - started_ > kTimePerAddress;
    if (state_ == State::kConnecting) {
      const std::optional<int> result = connection_result(socket_);
      if (!result && !is_late) return false;
      if (!result || *result != 0) {
        try_next_address(result.value_or(ETIMEDOUT));
        continue;
      }
      // The send buffer of a new connection has room for the greeting.
      const auto& greeting = target_.greeting;
      if (::send(socket_.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) {
        try_next_address(errno);
        continue;
      }
      state_ = State::kGreeted;
    }
    std::uint64_t reply = 0;
    const ssize_t n = recv(socket_.get(), &reply, sizeof reply, MSG_PEEK);
    const bool is_incomplete =
        n < 0 ? is_try_again(errno) : n > 0 && n < static_cast<ssize_t>(sizeof reply);
    if (is_incomplete && !is_late) return false;
    if (n == static_cast<ssize_t>(sizeof reply) && reply == target_.address.secret[1]) {
      // If a socket is closed with unread bytes, TCP may discard what the socket has sent.
      (void)recv(socket_.get(), &reply, sizeof reply, 0);
      state_ = State::kOpen;
      return true;
    }
    try_next_address(is_incomplete ? ETIMEDOUT : n < 0 ? errno : ECONNREFUSED);
  }
  return false;
}

void OutgoingStream::send_queue() {
  while (!queue_.empty()) {
    iovec parts[2 * kMessagesPerCall];
    std::size_t count = 0;
    std::size_t skip = sent_of_front_;
    const auto add = [&](const void* data, std::size_t bytes) {
      const std::size_t skipped = std::min(skip, bytes);
      skip -= skipped;
      if (skipped == bytes) return;
      // sendmsg() does not change the memory.
      parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skipped,
                        bytes - skipped};
    };
    const std::size_t messages = std::min(queue_.size(), kMessagesPerCall);
    for (std::size_t i = 0; i < messages; ++i) {
      add(&queue_[i].header, sizeof(MessageHeader));
      add(queue_[i].bytes.data(), queue_[i].bytes.size());
    }
    msghdr all{};
    all.msg_iov = parts;
    all.msg_iovlen = count;
    const ssize_t n = sendmsg(socket_.get(), &all, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && is_try_again(errno)) return;
    if (n < 0) {
      failure_ = fmt::format("its connection was closed: {}", std::strerror(errno));
      return;
    }
    sent_of_front_ += static_cast<std::size_t>(n);
    while (!queue_.empty() &&
           sent_of_front_ >= sizeof(MessageHeader) + queue_.front().bytes.size()) {
      sent_of_front_ -= sizeof(MessageHeader) + queue_.front().bytes.size();
      queue_.pop_front();
      ++sent_;
    }
  }
}

}  // namespace horo::collectives

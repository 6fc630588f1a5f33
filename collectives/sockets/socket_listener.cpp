#include "collectives/sockets/socket_listener.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <list>
#include <string>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/hash.h"

namespace horo::collectives {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr auto kTimeForGreeting = std::chrono::seconds(5);
constexpr std::size_t kMaxPending = 1024;

struct LocalAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

LocalAddress make_local_address(std::uint64_t name) {
  const std::string text = fmt::format("horo.{:016x}", name);
  LocalAddress result;
  result.address.sun_family = AF_UNIX;
  // The first byte of sun_path stays 0, so the address has no name in a file system.
  text.copy(result.address.sun_path + 1, sizeof result.address.sun_path - 1);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return result;
}

FileDescriptor listen_on_local_socket(std::uint64_t name) {
  FileDescriptor listener(socket(AF_UNIX, SOCK_STREAM | kSocketFlags, 0));
  const LocalAddress address = make_local_address(name);
  if (!listener.is_open() || bind(listener.get(), address.get(), address.length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0)
    return FileDescriptor();
  return listener;
}

}  // namespace

// A container may have the host's boot id but a network of its own. Abstract socket addresses, over
// which ranks also pass shared memory, are those of the network namespace.
std::uint64_t node_key() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  if (boot.empty()) {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    boot = host;
  }
  struct stat network {};
  stat("/proc/self/ns/net", &network);
  return Hash().add(boot).add(static_cast<std::uint64_t>(network.st_ino)).value();
}

FileDescriptor start_local_connection(const RankAddress& rank) {
  FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | kSocketFlags, 0));
  const LocalAddress address = make_local_address(rank.local_name);
  if (!made.is_open() || connect(made.get(), address.get(), address.length) == 0) return made;
  return FileDescriptor();
}

std::optional<Inbox::Connection> Inbox::take() {
  if (waiting_.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  Connection connection = std::move(connections_.front());
  connections_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return connection;
}

void Inbox::add(Connection connection) {
  const std::scoped_lock lock(mutex_);
  connections_.push_back(std::move(connection));
  waiting_.fetch_add(1, std::memory_order_release);
}

// A connection whose greeting has not been received completely.
struct SocketListener::PendingConnection {
  FileDescriptor socket;
  Clock::time_point since{};
  Greeting greeting{};
  std::size_t received = 0;
};

SocketListener::SocketListener(std::span<const std::string> interfaces)
    : address_{.secret = random_secret(),
               .node_key = collectives::node_key(),
               .local_name = random_secret()[0],
               .tcp = {}},
      tcp_(listen_on_tcp(false)),
      local_(listen_on_local_socket(address_.local_name)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!tcp_.is_open() || !local_.is_open() || !wake_.is_open())
    throw CommunicationError(
        fmt::format("this process cannot listen for the other ranks: {}", std::strerror(errno)));
  address_.tcp.port = port_of(tcp_);
  address_.tcp.set_addresses(host_addresses(interfaces));
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

SocketListener::~SocketListener() {
  thread_.request_stop();
  wake();
}

void SocketListener::wake() {
  const std::uint64_t one = 1;
  while (write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void SocketListener::send_later(UnsentMessages& messages) {
  {
    const std::scoped_lock lock(unsent_mutex_);
    if (std::ranges::find(unsent_, &messages) != unsent_.end()) return;
    unsent_.push_back(&messages);
  }
  wake();
}

void SocketListener::forget(UnsentMessages& messages) {
  const std::scoped_lock lock(unsent_mutex_);
  std::erase(unsent_, &messages);
}

// Returns whether nothing is left.
bool SocketListener::send_rests() {
  const std::scoped_lock lock(unsent_mutex_);
  std::erase_if(unsent_, [](UnsentMessages* messages) { return messages->send_rest(); });
  return unsent_.empty();
}

std::shared_ptr<Inbox> SocketListener::open(StreamId stream) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Inbox>& inbox = inboxes_[stream];
  if (inbox == nullptr) inbox = std::make_shared<Inbox>();
  return inbox;
}

void SocketListener::close(StreamId stream) {
  const std::scoped_lock lock(mutex_);
  inboxes_.erase(stream);
}

void SocketListener::run(std::stop_token stop) {
  std::list<PendingConnection> pending;  // in the order of `since`
  std::vector<pollfd> events;
  while (!stop.stop_requested()) {
    events = {{wake_.get(), POLLIN, 0}, {tcp_.get(), POLLIN, 0}, {local_.get(), POLLIN, 0}};
    for (const PendingConnection& connection : pending)
      events.push_back({connection.socket.get(), POLLIN, 0});
    const int limit_ms = !send_rests() ? 1 : pending.empty() ? -1 : 1000;
    if (poll(events.data(), events.size(), limit_ms) < 0 && errno != EINTR) return;
    std::uint64_t wakes = 0;
    (void)!read(wake_.get(), &wakes, sizeof wakes);
    const Clock::time_point now = Clock::now();
    std::erase_if(pending, [&](PendingConnection& connection) {
      return receive_greeting(connection) || now - connection.since > kTimeForGreeting;
    });
    for (const FileDescriptor* listener : {&tcp_, &local_}) {
      while (pending.size() < kMaxPending) {
        FileDescriptor socket = accept_connection(*listener);
        if (!socket.is_open()) break;
        pending.push_back({.socket = std::move(socket), .since = now});
      }
    }
    // The oldest connections have had the most time to send a greeting.
    if (pending.size() >= kMaxPending) pending.pop_front();
  }
}

// Returns whether the connection is no longer pending: its greeting was received, or it is refused.
bool SocketListener::receive_greeting(PendingConnection& connection) {
  auto* bytes = reinterpret_cast<std::byte*>(&connection.greeting);
  while (connection.received < sizeof(Greeting)) {
    const ssize_t n = recv(connection.socket.get(), bytes + connection.received,
                           sizeof(Greeting) - connection.received, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n <= 0) return true;
    connection.received += static_cast<std::size_t>(n);
  }
  if (connection.greeting.secret != address_.secret[0]) return true;
  // The send buffer of a new connection has room for the reply.
  if (::send(connection.socket.get(), &address_.secret[1], sizeof address_.secret[1],
             MSG_NOSIGNAL) != sizeof address_.secret[1])
    return true;
  open(connection.greeting.stream)->add({connection.greeting.source, std::move(connection.socket)});
  return true;
}

}  // namespace horo::collectives

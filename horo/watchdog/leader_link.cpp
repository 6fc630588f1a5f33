#include "horo/watchdog/leader_link.h"

#include <algorithm>
#include <memory>

#include "horo/base/system/sockets.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {
namespace {

constexpr auto kTimePerAddress = std::chrono::seconds(2);
constexpr auto kHelloTimeout = std::chrono::seconds(5);
// A call of accept_connections() accepts at most this many connections more than there are nodes
// without a connection.
constexpr std::size_t kExtraConnections = 32;

// The frame limit of an unauthenticated peer, which may send only a Hello.
std::size_t hello_bytes() { return encode(Hello{}).size(); }

}  // namespace

// The constructor listens, so that a node can connect as soon as it has the address. The kernel
// queues connections until accept4() is called.
LeaderHub::LeaderHub(int nodes, int ranks_of_largest_node, bool is_one_host,
                     std::span<const std::string> interfaces)
    : listener_(listen_on_tcp(is_one_host)),
      max_message_(max_message_bytes(ranks_of_largest_node)),
      nodes_(static_cast<std::size_t>(nodes)) {
  if (listener_.get() < 0) return;
  address_.node_secret = random_secret();
  address_.hub_secret = random_secret();
  address_.server.port = port_of(listener_);
  address_.server.set_addresses(is_one_host ? std::vector<std::string>{"127.0.0.1"}
                                            : host_addresses(interfaces));
}

// Accepts a bounded number per call, so that a peer that connects repeatedly cannot keep this
// thread busy.
void LeaderHub::accept_connections(Time now) {
  const auto known = static_cast<std::size_t>(std::ranges::count_if(
      connections_, [](const auto& connection) { return connection->node >= 0; }));
  const std::size_t max_unauthenticated =
      nodes_.size() - std::min(known, nodes_.size()) + kExtraConnections;
  for (std::size_t accepts = 0; accepts < max_unauthenticated; ++accepts) {
    FileDescriptor accepted = accept_connection(listener_);
    if (!accepted.is_open()) break;
    connections_.push_back(std::make_unique<Connection>(
        Connection{FrameSocket(std::move(accepted), hello_bytes()), now}));
  }
  drop_unauthenticated(max_unauthenticated);
}

// Drops the oldest unauthenticated connections first, because their peers have had the most time to
// send a Hello. New connections are appended, so connections_ is in order of age.
void LeaderHub::drop_unauthenticated(std::size_t max_unauthenticated) {
  const auto is_unauthenticated = [](const auto& connection) { return connection->node < 0; };
  const auto unauthenticated =
      static_cast<std::size_t>(std::ranges::count_if(connections_, is_unauthenticated));
  std::size_t surplus = unauthenticated - std::min(unauthenticated, max_unauthenticated);
  std::erase_if(connections_, [&](const auto& connection) {
    const bool is_dropped = surplus > 0 && is_unauthenticated(connection);
    if (is_dropped) --surplus;
    return is_dropped;
  });
}

// After a change of leader, a node may have two connections for some time. So is_connected is
// computed from all connections.
void LeaderHub::exchange(const HubStatus& hub_status, Time now, WallTime wall_now) {
  if (!is_open()) return;
  accept_connections(now);
  const std::vector<std::byte> bytes = encode(hub_status);
  for (const auto& connection : connections_) {
    receive(*connection, now, wall_now);
    if (connection->node >= 0) connection->socket.send(bytes);
  }
  std::erase_if(connections_, [&](const auto& connection) {
    return !connection->socket.is_open() ||
           (connection->node < 0 && now - connection->accepted_at > kHelloTimeout);
  });
  for (NodeStatus& status : nodes_) status.is_connected = false;
  for (const auto& connection : connections_)
    if (connection->node >= 0)
      nodes_[static_cast<std::size_t>(connection->node)].is_connected = true;
}

// The first message of a connection must be a Hello, and later messages must not be one. A message
// that violates this, or that cannot be decoded, closes the connection.
void LeaderHub::receive(Connection& connection, Time now, WallTime wall_now) {
  while (const auto frame = connection.socket.receive()) {
    const auto message = decode_link_message(*frame);
    const bool is_unexpected =
        !message || std::holds_alternative<Hello>(*message) != (connection.node < 0);
    if (is_unexpected) return connection.socket.close();
    handle(connection, *message, now, wall_now);
  }
}

// Converts the times of a report to this host's clock by the difference between the time of this
// round and `sent`. This neglects the time between sending and this round.
void LeaderHub::handle(Connection& connection, const LinkMessage& message, Time now,
                       WallTime wall_now) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    const bool is_known = hello->secret == address_.node_secret && hello->node > 0 &&
                          static_cast<std::size_t>(hello->node) < nodes_.size();
    if (!is_known) return connection.socket.close();
    connection.node = hello->node;
    connection.socket.set_max_frame(max_message_);
    connection.socket.send(encode(Welcome{address_.hub_secret}));
  } else if (const auto* report = std::get_if<Report>(&message)) {
    NodeStatus& status = nodes_[static_cast<std::size_t>(connection.node)];
    status.received_at = now;
    status.report = *report;
    for (RankSnapshot& rank : status.report->ranks) shift_times(rank, wall_now - report->sent);
  }
}

void LeaderHub::restart_timers(Time now) {
  for (NodeStatus& status : nodes_) status.received_at = now;
}

LeaderClient::LeaderClient(const HubAddress& address, int node, int ranks_of_node)
    : hub_address_(address),
      addresses_(address.server.address_list()),
      node_(node),
      max_message_(max_message_bytes(ranks_of_node)) {}

// Queues the Hello at once: FrameSocket sends it when the connection is established.
void LeaderClient::connect_to_next_address(Time now) {
  socket_ = FrameSocket::connect(addresses_[next_address_++ % addresses_.size()],
                                 hub_address_.server.port, max_message_);
  attempted_at_ = now;
  is_authenticated_ = false;
  if (!first_attempt_) first_attempt_ = now;
  if (socket_) socket_->send(encode(Hello{hub_address_.node_secret, node_}));
}

// Connects again if the connection is closed, or if the hub has not authenticated itself within
// kTimePerAddress. Sends reports only to an authenticated hub.
void LeaderClient::exchange(const Report& report, Time now) {
  if (hub_address_.server.port == 0 || addresses_.empty() || has_hub_left_) return;
  if (socket_) receive(now);
  const bool is_usable =
      socket_ && socket_->is_open() && (is_authenticated_ || now - attempted_at_ < kTimePerAddress);
  if (!is_usable) connect_to_next_address(now);
  if (is_authenticated_) socket_->send(encode(report));
}

// Ignores the status of a hub that has not authenticated itself, because a status can end the job.
// A status replaces the previous one, except that it never clears end_reason_.
void LeaderClient::receive(Time now) {
  while (const auto frame = socket_->receive()) {
    const auto message = decode_link_message(*frame);
    if (!message) return socket_->close();
    if (const auto* welcome = std::get_if<Welcome>(&*message)) {
      if (welcome->secret != hub_address_.hub_secret) return socket_->close();
      is_authenticated_ = true;
      last_received_ = now;
    } else if (const auto* status = std::get_if<HubStatus>(&*message);
               status != nullptr && is_authenticated_) {
      last_received_ = now;
      if (!status->end_reason.empty()) end_reason_ = status->end_reason;
      has_hub_left_ = status->is_shutting_down;
      is_paused_ = status->is_paused;
      does_hub_see_all_ = status->sees_all;
    }
  }
}

void LeaderClient::restart_timers(Time now) {
  if (last_received_) last_received_ = now;
}

}  // namespace horo::observe

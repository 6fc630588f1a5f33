#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/watchdog/frame_socket.h"
#include "horo/watchdog/link_message.h"

namespace horo::observe {

/// The hub: the server side of the link between watchdogs, on rank 0. Receives reports from the
/// leaders of the other nodes (NodeWatch::is_leader()) and sends its status to them. Never blocks.
/// Used by one thread at a time. A peer is unauthenticated until it has sent a Hello with
/// HubAddress::node_secret. The number and the duration of unauthenticated connections are limited,
/// and such a peer can send only a Hello.
class LeaderHub {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The last report of a node, and the state of its connection.
  struct NodeStatus {
    /// nullopt if there is no report yet. The times in `ranks` are converted to this host's clock.
    std::optional<Report> report;
    Time received_at{};         ///< of the last report, or of restart_timers() if that was later
    bool is_connected = false;  ///< whether the last exchange() left a connection open
  };

  /// Starts to listen, on the loopback interface only if `is_one_host`. `nodes` is the number of
  /// nodes of the job. If listening fails, is_open() is false and no node can connect. See
  /// host_addresses() for `interfaces`.
  LeaderHub(int nodes, int ranks_of_largest_node, bool is_one_host,
            std::span<const std::string> interfaces = {});

  bool is_open() const { return address_.server.port != 0; }
  const HubAddress& address() const { return address_; }
  /// Accepts connections, receives reports, and sends `hub_status` to every authenticated peer.
  void exchange(const HubStatus& hub_status, Time now, WallTime wall_now);
  /// nodes()[n] is the status of node n. Node 0 is the hub's own node and never has a report.
  const std::vector<NodeStatus>& nodes() const { return nodes_; }
  /// Sets received_at of all nodes to `now`.
  void restart_timers(Time now);

 private:
  struct Connection {
    FrameSocket socket;
    Time accepted_at;
    int node = -1;  // -1 if unauthenticated
  };
  void accept_connections(Time now);
  void drop_unauthenticated(std::size_t max_unauthenticated);
  void receive(Connection& connection, Time now, WallTime wall_now);
  void handle(Connection& connection, const LinkMessage& message, Time now, WallTime wall_now);

  FileDescriptor listener_;
  HubAddress address_;
  std::size_t max_message_;
  std::vector<NodeStatus> nodes_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

/// The client side of the link between watchdogs. Sends a node's reports to the hub and receives
/// the hub's status. Tries the hub's addresses in turn until the hub authenticates itself at one of
/// them. After the connection is lost, continues with the next address. Never blocks. Used by one
/// thread at a time.
class LeaderClient {
 public:
  using Time = std::chrono::steady_clock::time_point;

  LeaderClient(const HubAddress& address, int node, int ranks_of_node);

  /// Receives the hub's messages, connects to the next address if necessary, and sends `report` to
  /// an authenticated hub. Does nothing if there is no hub or has_hub_left().
  void exchange(const Report& report, Time now);

  /// The reason for which the hub aborts the job; empty if the hub has not sent one.
  const std::string& end_reason() const { return end_reason_; }
  /// When a Welcome or a status of the hub was last received, or restart_timers() if that was
  /// later; nullopt if neither was received.
  std::optional<Time> last_received() const { return last_received_; }
  /// When the first connection attempt was made; nullopt if there was none.
  std::optional<Time> first_attempt() const { return first_attempt_; }
  /// Whether the hub's last status announced that its watchdog ends.
  bool has_hub_left() const { return has_hub_left_; }
  /// Whether the client has tried every address of the hub and has started over.
  bool has_tried_all() const { return next_address_ > addresses_.size(); }
  /// HubStatus::is_paused of the hub's last status.
  bool is_paused() const { return is_paused_; }
  /// HubStatus::sees_all of the hub's last status.
  bool hub_sees_all_ranks() const { return does_hub_see_all_; }
  /// Sets last_received() to `now` unless it is nullopt.
  void restart_timers(Time now);

 private:
  void connect_to_next_address(Time now);
  void receive(Time now);

  HubAddress hub_address_;
  std::vector<std::string> addresses_;
  int node_;
  std::size_t max_message_;
  std::size_t next_address_ = 0;
  std::optional<FrameSocket> socket_;
  Time attempted_at_{};
  bool is_authenticated_ = false;
  std::optional<Time> first_attempt_;
  std::optional<Time> last_received_;
  std::string end_reason_;
  bool has_hub_left_ = false;
  bool is_paused_ = false;
  bool does_hub_see_all_ = false;
};

}  // namespace horo::observe

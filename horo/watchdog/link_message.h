#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "horo/base/system/sockets.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// The addresses of the hub, and the secrets with which the hub and the nodes authenticate each
/// other. The hub is the server on rank 0 to which the watchdogs of the other nodes connect
/// (LeaderHub). Trivially copyable, so that it can be broadcast.
struct HubAddress {
  Secret node_secret{};  ///< sent by a node to the hub
  Secret hub_secret{};   ///< sent by the hub to a node
  TcpAddress server;     ///< port 0 if there is no hub
};
static_assert(std::is_trivially_copyable_v<HubAddress>);

/// The first message of a node to the hub.
struct Hello {
  Secret secret{};
  std::int32_t node = 0;
};
/// The hub's reply to a valid Hello. It authenticates the hub.
struct Welcome {
  Secret secret{};
};
/// The snapshots of a node's ranks, sent by the leader of the node (NodeWatch::is_leader()).
struct Report {
  WallTime sent = 0;       ///< by the sender's clock, as are all times in the report
  std::string end_reason;  ///< why the node's ranks were aborted; empty if they were not
  std::vector<RankSnapshot> ranks;
};
/// The hub's status, sent to every connected node in every round of the hub's watchdog.
struct HubStatus {
  std::string end_reason;         ///< why the job is aborted; empty if it is not
  bool is_shutting_down = false;  ///< the watchdog of rank 0 ends
  bool is_paused = false;         ///< a running rank is in a pause
  bool sees_all = false;          ///< the hub has snapshots of all ranks of the job
};
using LinkMessage = std::variant<Hello, Welcome, Report, HubStatus>;

/// Encodes a message. Truncates end_reason to 1000 bytes.
std::vector<std::byte> encode(const LinkMessage& message);
/// Decodes one message. Returns nullopt if the bytes are not exactly one message. Accepts arbitrary
/// bytes.
std::optional<LinkMessage> decode_link_message(std::span<const std::byte> bytes);

/// An upper bound of the size of a message to or from a node with `ranks_of_node` ranks.
std::size_t max_message_bytes(int ranks_of_node);

}  // namespace horo::observe

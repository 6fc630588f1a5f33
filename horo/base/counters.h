#pragma once

#include <cstdint>

namespace horo {

/// What this rank has done since init(). Counts never decrease.
struct Counters {
  std::uint64_t control_messages_sent = 0;  ///< negotiation messages, inside and between nodes
  std::uint64_t control_bytes_sent = 0;     ///< bytes of those messages
  /// The part of control_messages_sent inside the node. A message to all ranks of the node counts
  /// once.
  std::uint64_t node_messages_sent = 0;
  std::uint64_t node_bytes_sent = 0;  ///< bytes of those messages
  /// The number of collectives run by this rank: one per bucket or named operation.
  std::uint64_t collectives = 0;
  std::uint64_t tensors = 0;        ///< tensors completed by these collectives
  std::uint64_t payload_bytes = 0;  ///< bytes of those tensors
};

}  // namespace horo

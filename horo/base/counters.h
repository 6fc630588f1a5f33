#pragma once

#include <cstdint>

namespace horo {

/// What this rank has done in a Context since init(), or in a ProcessSet since it was made. Counts
/// never decrease.
struct Counters {
  std::uint64_t control_messages_sent = 0;  ///< negotiation messages, inside and between nodes
  std::uint64_t control_bytes_sent = 0;     ///< bytes of those messages
  /// The part of control_messages_sent that was sent inside the node. A message to all ranks of the
  /// node counts once.
  std::uint64_t node_messages_sent = 0;
  std::uint64_t node_bytes_sent = 0;  ///< bytes of those messages
  /// The number of collectives that this rank has run: one per bucket, and one per named operation
  /// or group of fused operations. The search of GradientSyncOptions::autotune adds one per step.
  std::uint64_t collectives = 0;
  std::uint64_t tensors = 0;            ///< tensors completed by these collectives
  std::uint64_t messages_sent = 0;      ///< number of Context::send() calls that have completed
  std::uint64_t messages_received = 0;  ///< number of Context::recv() calls that have completed
  /// The bytes of the tensors of collectives and of messages, sent or received.
  std::uint64_t payload_bytes = 0;
};

}  // namespace horo

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/transport.h"
#include "horo/base/wait.h"
#include "horo/coordinator/byte_ring.h"
#include "horo/coordinator/doorbell.h"

namespace horo::coordinator {

/// Control messages between a node's leader (local rank 0) and its other ranks, through shared
/// memory: a ring of bytes from each rank to the leader and one ring from the leader to all of
/// them. Messages keep their order and are never lost; nobody blocks in send(). Used by one thread
/// at a time, the doorbells excepted.
class NodeChannel {
 public:
  struct Message {
    std::size_t source = 0;  ///< local rank
    std::vector<std::byte> bytes;
  };

  /// Collective over the job. Throws SharedMemoryError, on all ranks, if a node cannot have the
  /// memory.
  explicit NodeChannel(collectives::Transport& transport);

  /// This rank's.
  Doorbell& doorbell() { return *doorbells_[own_]; }
  /// Wakes all ranks of the node.
  void ring_all();

  /// The leader: to all others. The others: to the leader. No rank besides: does nothing. Wakes a
  /// reader that sleeps deeply only if `is_urgent`.
  void send(std::span<const std::byte> bytes, bool is_urgent = false);
  /// The next message for this rank.
  std::optional<Message> poll();
  /// Moves on what send() had no room for. Returns whether nothing is left.
  bool flush();
  /// flush() until nothing is left, by `policy`. Only where the readers do not wait for this rank.
  void flush_all(const WaitPolicy& policy);

 private:
  void tell_readers(bool is_urgent);

  std::size_t own_;
  std::size_t size_;
  std::unique_ptr<collectives::SharedRegion> region_;  // null for a rank that is alone
  Doorbell lone_doorbell_;
  std::vector<Doorbell*> doorbells_;  // by local rank
  std::optional<ByteRingWriter> writer_;
  std::vector<ByteRingReader> readers_;  // the leader: of local ranks 1, 2, ...; the others: one
  std::size_t next_reader_ = 0;
};

}  // namespace horo::coordinator

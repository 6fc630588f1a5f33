#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/point_to_point.h"
#include "collectives/shared_region.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// Sends control messages between all ranks of a transport. The length of a message may vary, but
/// must be below 1 GiB. Messages from one rank to another arrive in order. Only one thread at a
/// time may use a channel.
class MessageChannel {
 public:
  struct Message {
    int source = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~MessageChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends a copy of `bytes` without blocking.
  virtual void send(int destination, std::span<const std::byte> bytes) = 0;
  /// Returns a message that has arrived, or nullopt if there is none. Does not wait for a message
  /// to arrive.
  virtual std::optional<Message> poll() = 0;
};

class Collectives;

/// Makes the objects through which the ranks of a job, or of a subset of the job, communicate. The
/// make_ functions are collective: all ranks of the transport must call them in the same order. The
/// returned objects are isolated from each other, so different threads may use different objects at
/// the same time.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Topology& topology() const = 0;
  /// The default wait policy of the objects that this transport makes. The reference is valid while
  /// the transport exists.
  virtual const WaitPolicy& wait_policy() const = 0;
  /// The signal that abort() raises. The returned pointer stays valid after the transport is
  /// destroyed.
  virtual std::shared_ptr<AbortSignal> abort_signal() const = 0;
  virtual std::unique_ptr<PointToPoint> make_point_to_point() = 0;
  virtual std::unique_ptr<MessageChannel> make_message_channel() = 0;
  /// Makes memory that the ranks of this rank's node share. All ranks of a node must pass equal
  /// `bytes`. If any node cannot allocate its memory, MpiTransport throws SharedMemoryError on
  /// every rank. The transport of InProcessJob throws SharedMemoryError only on a rank that cannot
  /// map the memory.
  virtual std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) = 0;
  /// Makes collectives that the transport itself provides, as a reference for comparisons. Returns
  /// null if the transport provides none.
  virtual std::unique_ptr<Collectives> make_reference_collectives() = 0;
  /// Makes a transport of the ranks `members` (ascending), which are renumbered 0, 1, ... Returns
  /// null on all other ranks. `number` is Topology::set_number. Collective over this transport. The
  /// new transport and this one share one abort signal, so abort() on either transport also ends
  /// waits of the other. Otherwise the two transports are isolated from each other.
  virtual std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) = 0;
  /// Raises abort_signal() with `text`. This ends the waits of all ranks that share the signal,
  /// which are at least the ranks of this node. Thread-safe.
  virtual void abort(const char* text) noexcept = 0;
};

}  // namespace horo::collectives

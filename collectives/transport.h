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

/// Control messages of any length between all ranks of the job. Messages from one rank to another
/// arrive in order. Used by one thread at a time.
class MessageChannel {
 public:
  struct Message {
    int source = 0;
    std::vector<std::byte> bytes;
  };

  virtual ~MessageChannel() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sends a copy of `bytes`. Does not block.
  virtual void send(int destination, std::span<const std::byte> bytes) = 0;
  /// The next message that has arrived, if any. Does not block.
  virtual std::optional<Message> poll() = 0;
};

class Collectives;

/// Makes the channels between the ranks of a job. The make_ functions are collective over the job,
/// and all ranks call them in the same order. Results are isolated from each other, so different
/// threads may use different ones.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Topology& topology() const = 0;
  /// The wait policy of all objects made here. Valid while the transport exists.
  virtual const WaitPolicy& wait_policy() const = 0;
  /// The signal that abort() raises. It may outlive the transport.
  virtual std::shared_ptr<AbortSignal> abort_signal() const = 0;
  virtual std::unique_ptr<PointToPoint> make_point_to_point() = 0;
  virtual std::unique_ptr<MessageChannel> make_message_channel() = 0;
  /// Makes shared memory of this rank's node; `bytes` is equal on all ranks of a node. Throws
  /// SharedMemoryError, on every rank of the job, if a node cannot allocate it.
  virtual std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) = 0;
  /// The collectives of the transport itself, as a reference; null if it has none.
  virtual std::unique_ptr<Collectives> make_reference_collectives() = 0;
  /// Makes a transport of the ranks `members` (ascending), renumbered 0, 1, ...; null on other
  /// ranks. `number` is Topology::set_number. Collective over this transport. Shares the abort
  /// signal of the job, so a failure in either ends the waits of both. Otherwise the two are
  /// isolated from each other.
  virtual std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) = 0;
  /// Notifies all reachable ranks that this rank cannot continue.
  virtual void abort(const char* text) noexcept = 0;
};

}  // namespace horo::collectives

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/message_channel.h"
#include "collectives/point_to_point.h"
#include "collectives/shared_region.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"

namespace horo::collectives {

class Collectives;

/// Makes the means by which the ranks of a job reach each other. The make_ functions are collective
/// over the job and are called in the same order by all ranks; each result is isolated from the
/// others: traffic on one is never seen on another, so different threads may use different ones.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Topology& topology() const = 0;
  /// How everything made here waits. Valid while the transport lives.
  virtual const WaitPolicy& wait_policy() const = 0;
  /// The signal that abort() raises. It may outlive the transport.
  virtual std::shared_ptr<AbortSignal> abort_signal() const = 0;
  virtual std::unique_ptr<PointToPoint> make_point_to_point() = 0;
  virtual std::unique_ptr<MessageChannel> make_message_channel() = 0;
  /// Memory of this rank's node; `bytes` is the same on all ranks of a node. Throws
  /// SharedMemoryError, on every rank of the job, if a node cannot have it.
  virtual std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) = 0;
  /// The transport's own collectives, for reference; null if it has none.
  virtual std::unique_ptr<Collectives> make_reference_collectives() = 0;
  /// A transport of the ranks `members` of this one (ascending), renumbered 0, 1, ...; null on the
  /// others; `number` is Topology::set_number. Collective over this transport. It shares the abort
  /// signal of the job, so that a failure in either ends the waits of both; otherwise the two are
  /// isolated from each other.
  virtual std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) = 0;
  /// Tells the other ranks, as far as they can be reached, that this one cannot go on.
  virtual void abort(const char* text) noexcept = 0;
};

}  // namespace horo::collectives

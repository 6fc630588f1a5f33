#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "collectives/adasum/adasum.h"
#include "collectives/collectives.h"
#include "collectives/selection/allreduce_selection.h"
#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/base/step_report.h"

namespace horo::collectives {

/// Runs collectives over all ranks of a transport. Like an MPI communicator, it is isolated from
/// other communicators: a receive of one communicator never matches a message of another. Different
/// threads may therefore use different communicators at the same time. A communicator owns the
/// memory and the channels of its algorithm.
class Communicator {
 public:
  /// Collective over `transport`. All ranks must make their communicators in the same order, with
  /// equal `settings`, `wire` and `allreduce`. `wire` is the type in which ring allreduces send
  /// float32 values, or empty for float32. select_algorithm() determines the algorithm from
  /// settings.algorithm. `allreduce` selects among the allreduces over messages. `in_node` is the
  /// wait policy for flags in shared memory, and `between_nodes` is the wait policy for messages.
  /// Both policies and `transport` must outlive the communicator. Throws InvalidArgument if the
  /// algorithm cannot run on `transport`. Throws like Transport::make_node_region() if the
  /// algorithm needs shared memory.
  Communicator(Transport& transport, const Settings& settings, const AllreduceSelection& allreduce,
               const WaitPolicy& in_node, const WaitPolicy& between_nodes,
               std::optional<DataType> wire = {});
  ~Communicator();

  /// Reduces `buffer` over the ranks, in place. Unlike Collectives::allreduce(), also accepts
  /// kAdasum. For kAdasum, each piece of `buffer` is one tensor, and the pieces must have the same
  /// sizes on all ranks.
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op);
  Collectives& collectives() { return *collectives_; }
  /// Changes the segment size and the wire type of the rings. Does nothing if the algorithm has no
  /// rings. All ranks must call this function between the same collectives. Sends no message.
  void set_rings(std::size_t segment_bytes, std::optional<DataType> wire);
  /// The savings and the rounding error of the wire type. The caller must not read the report while
  /// a collective runs.
  const WireReport& wire_report() const { return wire_report_; }

 private:
  WireReport wire_report_;
  std::unique_ptr<PointToPoint> peers_;
  std::unique_ptr<Collectives> node_;
  std::unique_ptr<Collectives> collectives_;
  std::function<void(std::size_t, std::optional<DataType>)> set_rings_;  // empty without rings
  std::optional<Adasum> adasum_;
};

/// Returns `setting` unless it is kAuto. For kAuto, returns kSharedMemory for one node, kRing for
/// several nodes with one rank each, and kHierarchical otherwise. Throws InvalidArgument if
/// `setting` is kSharedMemory and there are several nodes.
Algorithm select_algorithm(const Topology& topology, Algorithm setting);

}  // namespace horo::collectives

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

/// A sequence of collectives over all ranks of the job that is isolated from other sequences, like
/// an MPI communicator. Messages of one communicator never match those of another, so different
/// threads may use different communicators. Owns the memory and the channels of its algorithm.
class Communicator {
 public:
  /// Collective over the job. All ranks call it in the same order with equal `settings`, `wire` and
  /// `allreduce`. `wire` is the type in which float32 is sent between nodes in allreduces that use
  /// the ring. The algorithm is settings.algorithm, or the result of select_algorithm() for kAuto.
  /// `allreduce` selects among the allreduces over messages. `in_node` and `between_nodes` (the
  /// wait policies for flags in shared memory and for messages) and `transport` outlive the
  /// communicator.
  Communicator(Transport& transport, const Settings& settings, const AllreduceSelection& allreduce,
               const WaitPolicy& in_node, const WaitPolicy& between_nodes,
               std::optional<DataType> wire = {});
  ~Communicator();

  /// Reduces tensors, the pieces of `buffer`, over the ranks, in place: Collectives::allreduce()
  /// for any operation, kAdasum included. All ranks have the same pieces.
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op);
  Collectives& collectives() { return *collectives_; }
  /// Changes the segment size and the wire type of the rings. Does nothing if there are no rings.
  /// All ranks call it between the same collectives. Sends no message.
  void set_rings(std::size_t segment_bytes, std::optional<DataType> wire);
  /// The figures of the wire type. Do not call it while a collective runs.
  const WireReport& wire_report() const { return wire_report_; }

 private:
  WireReport wire_report_;
  std::unique_ptr<PointToPoint> peers_;
  std::unique_ptr<Collectives> node_;
  std::unique_ptr<Collectives> collectives_;
  std::function<void(std::size_t, std::optional<DataType>)> set_rings_;  // empty: there are none
  std::optional<Adasum> adasum_;
};

/// Selects the algorithm for a job of this shape: shared memory for one node, the ring if each of
/// several nodes has one rank, else hierarchical. If `setting` is not kAuto, returns it. Throws
/// InvalidArgument if it does not support the topology.
Algorithm select_algorithm(const Topology& topology, Algorithm setting);

}  // namespace horo::collectives

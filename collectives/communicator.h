#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "collectives/adasum/adasum.h"
#include "collectives/collectives.h"
#include "collectives/selection/allreduce_selection.h"
#include "collectives/transport.h"
#include "horo/base/environment.h"
#include "horo/base/wire_report.h"

namespace horo::collectives {

/// An isolated stream of collectives over all ranks of the job, in MPI's sense of the word: what
/// runs on one communicator is never confused with another's, so each may be driven by its own
/// thread. Owns the memory and the channels that its algorithm needs.
class Communicator {
 public:
  /// Collective over the job; all ranks call it in the same order with equal settings and `wire`:
  /// what float32 travels as between nodes, in allreduces large enough for the ring. The
  /// algorithm is settings.algorithm, or for kAuto the one select_algorithm() gives; `allreduce`
  /// chooses among those over messages, equal on all ranks. `in_node` and `between_nodes` (how to
  /// wait for flags in shared memory and for messages) and `transport` outlive the communicator.
  Communicator(Transport& transport, const Settings& settings, const AllreduceSelection& allreduce,
               const WaitPolicy& in_node, const WaitPolicy& between_nodes,
               std::optional<DataType> wire = {});
  ~Communicator();

  /// Reduces tensors, the pieces of `buffer`, over the ranks, in place: Collectives::allreduce()
  /// for any operation, kAdasum included. All ranks have the same pieces.
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op);
  Collectives& collectives() { return *collectives_; }
  /// Goes on with other segments on its rings, and another wire type or none. Nothing happens where
  /// there are no rings. All ranks call it between the same collectives; no message.
  void set_rings(std::size_t segment_bytes, std::optional<DataType> wire);
  /// What the wire type has done; not while a collective runs.
  const WireReport& wire_report() const { return wire_report_; }

 private:
  WireReport wire_report_;
  std::unique_ptr<PointToPoint> peers_;
  std::unique_ptr<Collectives> node_;
  std::unique_ptr<Collectives> collectives_;
  std::function<void(std::size_t, std::optional<DataType>)> set_rings_;  // empty: there are none
  std::optional<Adasum> adasum_;
};

/// The algorithm for a job of this shape: shared memory on one node, hierarchical on several that
/// hold more than one rank each, the ring where every node holds one rank. `setting` other than
/// kAuto wins; throws InvalidArgument if it cannot serve the topology.
Algorithm select_algorithm(const Topology& topology, Algorithm setting);

}  // namespace horo::collectives

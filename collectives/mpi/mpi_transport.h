#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/transport.h"

namespace horo::collectives {

/// The ranks of an MPI communicator. Everything made here has a communicator of its own, so
/// different threads may use different ones: MPI must run with MPI_THREAD_MULTIPLE. Destroyed, with
/// all that it has made, before MPI_Finalize, in the same order on all ranks.
class MpiTransport : public Transport {
 public:
  /// Collective over `comm`, which is duplicated and not used again. `policy.abort` is replaced by
  /// a signal in memory shared by the node. `ranks_per_node`: 0 for real nodes; k > 0 pretends that
  /// each k consecutive ranks are a node of their own. Throws InvalidArgument if MPI was
  /// initialised with a lower thread level.
  MpiTransport(MPI_Comm comm, const WaitPolicy& policy, std::size_t ranks_per_node);

  const Topology& topology() const override { return topology_; }
  const WaitPolicy& wait_policy() const override { return policy_; }
  std::shared_ptr<AbortSignal> abort_signal() const override {
    return {abort_region_, abort_signal_};
  }
  /// Changes how everything made here waits; `policy.abort` is replaced as in the constructor.
  /// Before any of it is used.
  void set_wait_policy(const WaitPolicy& policy);
  std::unique_ptr<PointToPoint> make_point_to_point() override;
  std::unique_ptr<MessageChannel> make_message_channel() override;
  std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) override;
  std::unique_ptr<Collectives> make_reference_collectives() override;
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override;
  /// Ends the waits of the node's other ranks with `text`. Other nodes learn of it when mpirun ends
  /// the job.
  void abort(const char* text) noexcept override;

 private:
  // Of some ranks of `parent`; `comm` is theirs alone.
  MpiTransport(const MpiTransport& parent, MpiComm comm, Topology topology);

  // The lowest rank of the job whose node has no memory; the size if all have.
  int first_without(bool has_memory) const;

  WaitPolicy policy_;
  MpiComm comm_;
  Topology topology_;
  MpiComm node_comm_;
  std::shared_ptr<SharedRegion> abort_region_;  // of the job, with its subsets
  AbortSignal* abort_signal_ = nullptr;         // in abort_region_
};

}  // namespace horo::collectives

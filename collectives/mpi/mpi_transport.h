#pragma once

#include <mpi.h>

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/transport.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Returns the nodes of the ranks of `comm`; MPI determines which ranks can share memory.
/// Collective. `ranks_per_node` > 0 divides each real node into emulated ones, blocks of that many
/// consecutive ranks.
Topology gather_topology(const MpiComm& comm, std::size_t ranks_per_node, const WaitPolicy& policy);

/// Returns the ranks in MPI_COMM_WORLD of the ranks of `comm`, in its order. Not collective.
std::vector<int> world_ranks_of(MPI_Comm comm);

/// Sends control messages, each shorter than 2^30 bytes, over a dedicated communicator.
class MpiMessageChannel : public MessageChannel {
 public:
  explicit MpiMessageChannel(MpiComm comm);
  /// Waits up to one second for sends in flight.
  ~MpiMessageChannel() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int destination, std::span<const std::byte> bytes) override;
  std::optional<Message> poll() override;

 private:
  struct Sending {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void reap();

  MpiComm comm_;
  int rank_;
  int size_;
  std::list<Sending> sending_;
};

/// The ranks of an MPI communicator. Each object made here has its own communicator, so different
/// threads may use different objects. MPI must run with MPI_THREAD_MULTIPLE. The transport and all
/// its objects must be destroyed before MPI_Finalize, in the same order on all ranks.
class MpiTransport : public Transport {
 public:
  /// Collective over `comm`, which is duplicated and not used again. `policy.abort` is replaced by
  /// a signal in memory shared by the node. `ranks_per_node`: 0 for real nodes; k > 0 makes each k
  /// consecutive ranks an emulated node. Throws InvalidArgument if MPI was initialised with a lower
  /// thread level.
  MpiTransport(MPI_Comm comm, const WaitPolicy& policy, std::size_t ranks_per_node);

  const Topology& topology() const override { return topology_; }
  const WaitPolicy& wait_policy() const override { return policy_; }
  std::shared_ptr<AbortSignal> abort_signal() const override {
    return {abort_region_, abort_signal_};
  }
  /// Changes the wait policy of all objects made here. `policy.abort` is replaced as in the
  /// constructor. Call it before any object is used.
  void set_wait_policy(const WaitPolicy& policy);
  std::unique_ptr<PointToPoint> make_point_to_point() override;
  std::unique_ptr<MessageChannel> make_message_channel() override;
  std::unique_ptr<SharedRegion> make_node_region(std::size_t bytes) override;
  std::unique_ptr<Collectives> make_reference_collectives() override;
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override;
  /// Makes the waits of the other ranks of the node fail with `text`. mpirun informs the other
  /// nodes when it ends the job.
  void abort(const char* text) noexcept override;

 private:
  // A transport of some ranks of `parent`, which `comm` connects.
  MpiTransport(const MpiTransport& parent, MpiComm comm, Topology topology);

  // Returns the lowest rank of the job whose node has no memory; the size of the job if all have.
  int first_without(bool has_memory) const;

  WaitPolicy policy_;
  MpiComm comm_;
  Topology topology_;
  MpiComm node_comm_;
  std::shared_ptr<SharedRegion> abort_region_;  // shared with the subsets of the job
  AbortSignal* abort_signal_ = nullptr;         // in abort_region_
};

}  // namespace horo::collectives

#pragma once

#include <mpi.h>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/mpi/mpi_group.h"
#include "collectives/process_transport.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Returns, for each rank of `comm`, its rank in MPI_COMM_WORLD. Not collective.
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

/// The transport between the ranks of an MPI communicator. Each channel, each subset and the
/// reference collectives have their own communicators, so different threads may use different
/// objects. MPI must run with MPI_THREAD_MULTIPLE. The caller must destroy the transport and all
/// objects that it has made before MPI_Finalize, in the same order on all ranks.
class MpiTransport : public ProcessTransport {
 public:
  /// Collective over `comm`. The constructor duplicates `comm` and does not use it afterwards. It
  /// copies `policy` and replaces its `abort` by a signal in memory that the ranks of the node
  /// share. MPI determines which ranks can share memory. See gather_topology() for
  /// `ranks_per_node`. Throws InvalidArgument if MPI was initialised with a lower thread level than
  /// MPI_THREAD_MULTIPLE.
  MpiTransport(MPI_Comm comm, const WaitPolicy& policy, std::size_t ranks_per_node);

  std::unique_ptr<PointToPoint> make_point_to_point() override;
  std::unique_ptr<MessageChannel> make_message_channel() override;
  std::unique_ptr<Collectives> make_reference_collectives() override;
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override;

 private:
  // Makes a transport of some ranks of `parent`. `comm` connects these ranks.
  MpiTransport(const MpiTransport& parent, MpiComm comm, Topology topology);
  RankGroup& all_ranks() override { return all_; }
  RankGroup& ranks_of_node() override { return *node_; }

  MpiGroup all_;
  std::optional<MpiGroup> node_;
};

}  // namespace horo::collectives

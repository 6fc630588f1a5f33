#pragma once

#include <cstddef>
#include <vector>

#include "collectives/mpi/message_pieces.h"
#include "collectives/mpi/mpi_handles.h"
#include "collectives/point_to_point.h"

namespace horo::collectives {

/// Sends and receives messages over a dedicated communicator. Requires MPI_THREAD_MULTIPLE if other
/// threads use MPI.
class MpiPointToPoint : public PointToPoint {
 public:
  /// `policy` must outlive this object. Transfers of more than `largest_message` bytes are split.
  MpiPointToPoint(MpiComm comm, const WaitPolicy& policy,
                  std::size_t largest_message = kLargestMpiMessage);
  /// If transfers are in flight, logs their number, cancels the receives among them, and waits up
  /// to 500 ms for the sends. Does nothing after MPI_Finalize.
  ~MpiPointToPoint() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const WaitPolicy& default_wait_policy() const override { return policy_; }
  Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) override;
  Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) override;
  bool test(Ticket ticket) override;

 private:
  struct Transfer {
    std::vector<MPI_Request> pieces;  // empty if the entry is unused
    std::size_t done = 0;             // pieces [0, done) are complete
    bool is_receive = false;
  };
  Transfer& start(Ticket& ticket, bool is_receive);
  void finish_sends();

  MpiComm comm_;
  const WaitPolicy& policy_;
  std::size_t largest_message_;
  int rank_;
  int size_;
  std::vector<Transfer> transfers_;  // transfers_[ticket - 1]
  std::vector<Ticket> free_;         // the tickets of unused entries
};

}  // namespace horo::collectives

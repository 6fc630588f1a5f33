#pragma once

#include <list>
#include <vector>

#include "collectives/message_channel.h"
#include "collectives/mpi/mpi_handles.h"

namespace horo::collectives {

/// Control messages over a communicator of its own; each shorter than 2^30 bytes.
class MpiMessageChannel : public MessageChannel {
 public:
  explicit MpiMessageChannel(MpiComm comm);
  /// Gives sends that are still under way a second to end.
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

}  // namespace horo::collectives

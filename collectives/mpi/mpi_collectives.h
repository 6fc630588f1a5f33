#pragma once

#include <cstddef>
#include <vector>

#include "collectives/alltoall_blocks.h"
#include "collectives/collectives.h"
#include "collectives/mpi/message_pieces.h"
#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/mpi_operations.h"

namespace horo::collectives {

/// MPI's own blocking collectives, as a reference for results and speed. Buffers in several pieces
/// are packed. Order of combination, and whether all ranks end with the same bits for sums that
/// round, are up to the MPI library. Waits inside MPI have no deadline; only barrier() has.
class MpiCollectives : public Collectives {
 public:
  /// `policy` outlives this. `largest_message`: bytes above which a transfer is split.
  MpiCollectives(MpiComm comm, const WaitPolicy& policy,
                 std::size_t largest_message = kLargestMpiMessage);

  std::string_view name() const override { return "mpi"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override;
  void broadcast(const ScatteredBuffer& buffer, int root) override;
  void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                 std::span<std::byte> output) override;
  void reduce_scatter(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op) override;
  void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                std::span<std::byte> output, std::span<const std::size_t> bytes_from) override;
  void barrier() override;

 private:
  /// The whole buffer in one piece: its own memory, or packed.
  std::byte* packed(const ScatteredBuffer& buffer);
  void unpack(const ScatteredBuffer& buffer, const std::byte* data);
  void reduce_to_each(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op);
  /// alltoall of more than MPI can count.
  void exchange_pairs(const AlltoallBlocks& blocks);

  MpiComm comm_;
  const WaitPolicy& policy_;
  std::size_t largest_message_;
  int rank_;
  int size_;
  MpiOperations operations_;
  std::vector<std::byte> staging_;
};

}  // namespace horo::collectives

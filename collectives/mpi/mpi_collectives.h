#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/collectives.h"
#include "collectives/mpi/message_pieces.h"
#include "collectives/mpi/mpi_handles.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// The MPI datatypes and operations for horo's types. The MPI standard has no 16-bit floats, and
/// some libraries saturate sums of 8-bit and 16-bit integers. For these types and for bool, this
/// class owns operations that call horo's kernels. For 16-bit floats, these operations combine two
/// values in float32 and round the result. kAverage maps to the sum. kAdasum has no operation. The
/// destructor frees the owned datatype and operations, unless MPI has already been finalized.
class MpiOperations {
 public:
  MpiOperations();
  MpiOperations(const MpiOperations&) = delete;
  MpiOperations& operator=(const MpiOperations&) = delete;
  ~MpiOperations();

  MPI_Datatype type_of(DataType type) const;
  MPI_Op operation_of(DataType type, ReduceOp op) const;

 private:
  MPI_Datatype half_ = MPI_DATATYPE_NULL;
  // By type and operation. An entry is MPI_OP_NULL if operation_of() returns a predefined operation
  // of MPI.
  MPI_Op owned_[kDataTypeCount][kElementwiseOpCount];
};

/// The collectives of the MPI library, as a reference for results and speed. Buffers of several
/// pieces are packed. The MPI library determines the order of combination and whether rounded sums
/// have the same bits on all ranks. Only barrier() has a timeout and checks the abort signal. The
/// other functions block inside MPI.
class MpiCollectives : public Collectives {
 public:
  /// `policy` applies to barrier() and must outlive this object. Transfers of more than
  /// `largest_message` bytes are split.
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
  /// Returns the address of a buffer that has one piece. Packs any other buffer into staging_
  /// and returns the address of staging_.
  std::byte* packed(const ScatteredBuffer& buffer);
  void unpack(const ScatteredBuffer& buffer, const std::byte* data);
  void reduce_to_each(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op);
  /// Performs an alltoall as exchanges between pairs of ranks. alltoall() calls it if the input or
  /// the output of any rank has more than largest_message_ bytes.
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

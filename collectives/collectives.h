#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/buffers.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Collectives among the ranks of a fixed group. Except name() and uses_mapped_buffers(), every
/// function is collective: all ranks of the group must call the functions in the same order with
/// matching arguments. The functions do not check that the arguments of the ranks match. They
/// block, and only one thread at a time may call them. Reductions accept only elementwise
/// operations; Communicator::allreduce() also accepts kAdasum.
///
/// A function throws CommunicationError if the communication fails, if a wait times out, or if the
/// abort signal is raised. It throws ShutdownError if the wait is cancelled (see WaitPolicy). In
/// MpiCollectives, only the waits of barrier() end in these ways. After such an error, the object
/// is unusable.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual std::string_view name() const = 0;

  /// Reduces `buffer` over the ranks, in place. All implementations except MpiCollectives give all
  /// ranks the same bits. In every run with the same group and the same settings, they also give
  /// the same bits for the same input.
  virtual void allreduce(const ScatteredBuffer& buffer, ReduceOp op) = 0;
  /// Like allreduce(), but for a buffer that the ranks of a node have mapped from each other. While
  /// this rank is in the call, other ranks of the node may read and write the buffer of this rank.
  virtual void allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) {
    allreduce(buffer.own(), op);
  }
  /// Whether allreduce_mapped() can use the mapping. Otherwise allreduce_mapped() is the same as
  /// allreduce(buffer.own()).
  virtual bool uses_mapped_buffers() const { return false; }
  /// Copies the buffer of `root` to the buffers of the other ranks. The buffers of the ranks may
  /// have different pieces, but must have the same type and the same total count.
  virtual void broadcast(const ScatteredBuffer& buffer, int root) = 0;
  /// Concatenates the ranks' inputs in `output`. bytes_of[r] is the size of rank r's input, which
  /// may be 0. All ranks must pass the same `bytes_of`. `input` may be this rank's part of
  /// `output`. Otherwise the buffers must not overlap.
  virtual void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                         std::span<std::byte> output) = 0;
  /// Reduces `input` over the ranks. `input` has sum(count_of) elements of `type`. The result is
  /// divided among the ranks: rank 0 gets the first count_of[0] elements, rank 1 the next
  /// count_of[1], and so on. Stores the part of this rank in `output`. The buffers must not
  /// overlap.
  virtual void reduce_scatter(const std::byte* input, DataType type,
                              std::span<const std::size_t> count_of, std::byte* output,
                              ReduceOp op) = 0;
  /// Sends block s of `input` to each rank s, and stores the block from each rank r as block r of
  /// `output`. Blocks are consecutive, in rank order. bytes_to[s] and bytes_from[r] are the sizes
  /// of the blocks, which may be 0. bytes_from[r] on this rank must equal bytes_to[rank] on rank r,
  /// where `rank` is the number of this rank. The buffers must not overlap.
  virtual void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                        std::span<std::byte> output, std::span<const std::size_t> bytes_from) = 0;
  /// Returns after every rank has called barrier().
  virtual void barrier() = 0;
};

}  // namespace horo::collectives

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/mapped_buffer.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// One way to move bytes among a fixed group of ranks. Every function is collective: all ranks of
/// the group call the same sequence with matching arguments (the coordinator has checked that they
/// match). Blocking; called from one thread at a time. Throws CommunicationError when a peer is
/// lost or the deadline of the wait policy passes; the object is unusable afterwards. Operations
/// are those that combine each element by itself; kAdasum is Communicator::allreduce()'s.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual std::string_view name() const = 0;

  /// Reduces `buffer` over the ranks, in place. All ranks end with the same bits, and the same
  /// input gives the same bits every time.
  virtual void allreduce(const ScatteredBuffer& buffer, ReduceOp op) = 0;
  /// The same for a buffer that the ranks of a node have mapped from each other: those may read and
  /// write each other's buffers between the first call's begin and the last call's end.
  virtual void allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) {
    allreduce(buffer.own(), op);
  }
  /// Whether allreduce_mapped() makes use of it.
  virtual bool uses_mapped_buffers() const { return false; }
  /// Copies the buffer of `root` to all ranks. Pieces may be divided differently on each rank; the
  /// total count is the same.
  virtual void broadcast(const ScatteredBuffer& buffer, int root) = 0;
  /// Puts the ranks' inputs one after the other into `output`. bytes_of[r] is the size of rank r's
  /// input (equal on all ranks; 0 is allowed). `input` may be this rank's place in `output`.
  virtual void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                         std::span<std::byte> output) = 0;
  /// Reduces `input` (sum of count_of elements of `type`) over the ranks and leaves elements
  /// [sum(count_of[0 .. rank-1]), + count_of[rank]) in `output`. Buffers do not overlap.
  virtual void reduce_scatter(const std::byte* input, DataType type,
                              std::span<const std::size_t> count_of, std::byte* output,
                              ReduceOp op) = 0;
  /// Sends block s of `input` to rank s, for every s, and puts the block that rank r sends here at
  /// place r of `output`. Blocks lie one after the other, by rank; bytes_to[s] and bytes_from[r]
  /// are their sizes (0 is allowed), and bytes_from[r] equals what rank r has for this rank in its
  /// bytes_to. Each rank knows its own two lists only. Buffers do not overlap.
  virtual void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                        std::span<std::byte> output, std::span<const std::size_t> bytes_from) = 0;
  /// Returns after every rank has called it.
  virtual void barrier() = 0;
};

}  // namespace horo::collectives

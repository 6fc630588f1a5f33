#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/buffers.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// An algorithm that moves bytes among a fixed group of ranks. Every function is collective: all
/// ranks of the group call the same functions in the same order with matching arguments. The
/// coordinator has checked that arguments match. Blocking; called from one thread at a time. Throws
/// CommunicationError when a peer is lost or the wait policy times out; the object is unusable
/// afterwards. Accepts the elementwise operations; Communicator::allreduce() implements kAdasum.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual std::string_view name() const = 0;

  /// Reduces `buffer` over the ranks, in place. All ranks end with the same bits, and the same
  /// input gives the same bits every time.
  virtual void allreduce(const ScatteredBuffer& buffer, ReduceOp op) = 0;
  /// The same for a buffer that the ranks of a node have mapped from each other. Ranks may read and
  /// write each other's buffers from the time when the first rank calls this until the last rank
  /// has returned.
  virtual void allreduce_mapped(const MappedBuffer& buffer, ReduceOp op) {
    allreduce(buffer.own(), op);
  }
  /// Whether allreduce_mapped() uses the mapping.
  virtual bool uses_mapped_buffers() const { return false; }
  /// Copies the buffer of `root` to all ranks. The buffers of the ranks may have different pieces,
  /// but the same total count.
  virtual void broadcast(const ScatteredBuffer& buffer, int root) = 0;
  /// Concatenates the ranks' inputs in `output`. bytes_of[r] is the size of rank r's input (equal
  /// on all ranks; 0 is allowed). `input` may be this rank's part of `output`.
  virtual void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                         std::span<std::byte> output) = 0;
  /// Reduces `input` (sum of count_of elements of `type`) over the ranks. Stores this rank's part
  /// of the result in `output`: its count_of[rank] elements, which follow those of the lower ranks.
  /// Buffers do not overlap.
  virtual void reduce_scatter(const std::byte* input, DataType type,
                              std::span<const std::size_t> count_of, std::byte* output,
                              ReduceOp op) = 0;
  /// Sends block s of `input` to rank s, for every s, and stores the block from rank r as block r
  /// of `output`. Blocks are consecutive, by rank. bytes_to[s] and bytes_from[r] are their sizes (0
  /// is allowed); bytes_from[r] equals entry `rank` of rank r's bytes_to. Each rank passes only
  /// its own two lists. Buffers do not overlap.
  virtual void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                        std::span<std::byte> output, std::span<const std::size_t> bytes_from) = 0;
  /// Returns after every rank has called it.
  virtual void barrier() = 0;
};

}  // namespace horo::collectives

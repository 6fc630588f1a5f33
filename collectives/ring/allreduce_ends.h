#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/mapped_buffer.h"
#include "collectives/reduce/division.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_segments.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// What a rank brings to a ring allreduce and where results go, common to every form in which
/// segments travel. A rank stands for all ranks whose buffers it has mapped: it brings their
/// values, combined in rank order, and leaves complete values in all of their buffers. Partial
/// results wait in its own. Of the ranks that share a MappedBuffer only one uses it.
class AllreduceEnds : public FlowEnds {
 public:
  /// `ranks`: how many ranks' values are combined in all. `buffer` outlives this.
  AllreduceEnds(const RingSegments& segments, const MappedBuffer& buffer, ReduceOp op,
                std::size_t ranks)
      : segments_(segments), buffer_(buffer), op_(op), ranks_(ranks) {}

 protected:
  const RingSegments& segments() const { return segments_; }
  const MappedBuffer& buffer() const { return buffer_; }
  ReduceOp op() const { return op_; }
  /// Whether what is received is a partial result; otherwise it is complete.
  bool is_reducing(std::size_t unit) const { return unit < segments_.schedule().reduce_units(); }
  /// The send whose memory a complete segment replaces: the partial one of n - 1 steps before.
  std::size_t replaced_send(std::size_t receive) const {
    return receive - segments_.schedule().reduce_units();
  }

  /// Puts what this rank brings of the elements `range` at `to`. kAverage divides.
  void combine_own(Range range, ReduceOp op, std::byte* to) {
    const std::size_t width = buffer_.own().element_bytes();
    buffer_.for_each_stretch(
        range.begin, range.end,
        [&](std::span<std::byte* const> addresses, std::size_t first, std::size_t count) {
          sources_.assign(addresses.begin(), addresses.end());
          reduce(buffer_.own().type(), op, sources_, count, ranks_, to + first * width,
                 Stores::kPlain);
        });
  }

  /// Combines what this rank brings of the elements `range` with a partial result, in the buffer's
  /// type, and leaves that in its own buffer or, if it is complete, in all.
  void add(Range range, const std::byte* partial, bool is_complete) {
    const ReduceOp op = is_complete ? op_ : without_division(op_);
    const std::size_t width = buffer_.own().element_bytes();
    buffer_.for_each_stretch(
        range.begin, range.end,
        [&](std::span<std::byte* const> addresses, std::size_t first, std::size_t count) {
          sources_.assign(addresses.begin(), addresses.end());
          sources_.push_back(partial + first * width);
          const auto outs = is_complete ? addresses : addresses.subspan(buffer_.own_index(), 1);
          reduce(buffer_.own().type(), op, sources_, count, ranks_, outs, Stores::kPlain);
        });
  }

  /// Copies complete values to all buffers but the one that they lie in.
  void spread(Range range, const std::byte* from) {
    const std::size_t width = buffer_.own().element_bytes();
    buffer_.for_each_stretch(
        range.begin, range.end,
        [&](std::span<std::byte* const> addresses, std::size_t first, std::size_t count) {
          for (std::byte* const to : addresses)
            if (to != from + first * width)
              copy(to, from + first * width, count * width, Stores::kPlain);
        });
  }

 private:
  RingSegments segments_;
  const MappedBuffer& buffer_;
  ReduceOp op_;
  std::size_t ranks_;
  std::vector<const std::byte*> sources_;
};

}  // namespace horo::collectives

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/ring/segment_flow.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/step_report.h"

namespace horo::collectives {

/// The type in which float32 values are sent, if they are not sent as float32.
struct Wire {
  DataType type;       ///< kFloat16 or kBFloat16
  WireReport* report;  ///< the figures of the transfers are added here
};

/// The source and the destination of a ring allreduce, independent of the type in which segments
/// are sent. A rank represents all ranks whose buffers are in its MappedBuffer. It contributes the
/// values of these ranks, combined in rank order, and writes complete values to all of these
/// buffers. It stores partial results in its own buffer. Only one of the ranks that share a
/// MappedBuffer may run a flow over the same elements.
class AllreduceEnds : public FlowEnds {
 public:
  /// `ranks` is the total number of ranks whose values are combined. `buffer` must outlive this
  /// object.
  AllreduceEnds(const RingSegments& segments, const MappedBuffer& buffer, ReduceOp op,
                std::size_t ranks)
      : segments_(segments), buffer_(buffer), op_(op), ranks_(ranks) {}

 protected:
  const RingSegments& segments() const { return segments_; }
  const MappedBuffer& buffer() const { return buffer_; }
  ReduceOp op() const { return op_; }
  /// Whether the unit carries a partial result. Otherwise it carries complete values.
  bool is_reducing(std::size_t unit) const { return unit < segments_.schedule().reduce_units(); }
  /// Returns the send that reads the memory which the complete segment `receive` overwrites. The
  /// send is n - 1 steps earlier.
  std::size_t replaced_send(std::size_t receive) const {
    return receive - segments_.schedule().reduce_units();
  }

  /// Computes this rank's contribution to the elements `range` and writes it to `to`. If `op` is
  /// kAverage, divides it by the number of ranks.
  void combine_own(Range range, ReduceOp op, std::byte* to) {
    const std::size_t width = buffer_.own().element_bytes();
    buffer_.for_each_span(
        range.begin, range.end,
        [&](std::span<std::byte* const> addresses, std::size_t first, std::size_t count) {
          sources_.assign(addresses.begin(), addresses.end());
          reduce(buffer_.own().type(), op, sources_, count, ranks_, to + first * width,
                 Stores::kPlain);
        });
  }

  /// Combines this rank's contribution to the elements `range` with a partial result of the same
  /// type. Writes the result to all buffers if `is_complete`, and only to this rank's buffer
  /// otherwise.
  void add(Range range, const std::byte* partial, bool is_complete) {
    const ReduceOp op = is_complete ? op_ : without_division(op_);
    const std::size_t width = buffer_.own().element_bytes();
    buffer_.for_each_span(
        range.begin, range.end,
        [&](std::span<std::byte* const> addresses, std::size_t first, std::size_t count) {
          sources_.assign(addresses.begin(), addresses.end());
          sources_.push_back(partial + first * width);
          const auto outs = is_complete ? addresses : addresses.subspan(buffer_.own_index(), 1);
          reduce(buffer_.own().type(), op, sources_, count, ranks_, outs, Stores::kPlain);
        });
  }

  /// Copies complete values to all buffers except the one that `from` points into.
  void spread(Range range, const std::byte* from) {
    const std::size_t width = buffer_.own().element_bytes();
    buffer_.for_each_span(
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

/// Sends segments of float32 as a 16-bit type. Values are converted when they are copied to and
/// from the segments, and are combined in float32. An element is rounded once per hop of its
/// partial result, and once more when it is complete, so that all ranks end with the same bits.
/// kAverage divides each rank's values before they are sent, so that the sum stays in the range of
/// the wire type.
class NarrowAllreduceEnds : public AllreduceEnds {
 public:
  static constexpr std::size_t kElementBytes = 2;  ///< on the wire

  NarrowAllreduceEnds(const RingSegments& segments, const MappedBuffer& buffer, ReduceOp op,
                      std::size_t ranks, const Wire& wire)
      : AllreduceEnds(segments, buffer, op, ranks), wire_(wire) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override;
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override;
  void process(std::size_t receive, std::span<const std::byte> bytes) override;

 private:
  // A segment is converted in tiles, so that intermediate values stay in the L1 cache.
  static constexpr std::size_t kTile = 2048;
  using Wide = std::array<std::byte, kTile * sizeof(float)>;
  using Narrowed = std::array<std::byte, kTile * kElementBytes>;

  void narrow_own(Range range, bool is_rounding, std::byte* to);
  void add_tile(Range tile, const std::byte* partial, bool is_complete);
  void sample_error(const std::byte* wide, const std::byte* narrowed, std::size_t count);

  Wire wire_;
  Wide values_;
  Wide partial_;
  Narrowed rounded_;
};

/// Sends segments in the buffer's type. A segment that is contiguous in the buffer is sent from the
/// buffer. If its values are complete, it is also received into the buffer. All other segments pass
/// through staging slots, and so do values that are combined from several mapped buffers.
class PlainAllreduceEnds : public AllreduceEnds {
 public:
  using AllreduceEnds::AllreduceEnds;

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override;
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override;
  void process(std::size_t receive, std::span<const std::byte> bytes) override;
  bool may_receive(std::size_t receive, std::size_t sends_done) const override;
};

/// The parameters of one rank in a ring allreduce.
struct RingAllreduce {
  int rank = 0;                   ///< in the ring
  int size = 1;                   ///< of the ring
  std::size_t segment_bytes = 0;  ///< the largest size of a segment, in the wire type
  int ranks = 1;                  ///< the divisor of kAverage
  std::optional<Wire> wire;       ///< for float32; other types are sent unchanged
};

/// A flow that has not started.
struct PreparedFlow {
  SegmentFlow::Plan plan;
  std::unique_ptr<FlowEnds> ends;  ///< null if there is nothing to do
};

/// Prepares an allreduce in place in a ring. It consists of a reduce-scatter and an allgather, as
/// one stream of segments (see RingSchedule). The reduction of a segment overlaps with the transfer
/// of the next segments. N bytes in a ring of n ranks take 2(n-1) steps. Each rank sends
/// 2(n-1)/n * N bytes and reduces half as many.
///
/// A rank may represent other ranks whose buffers it has mapped (see AllreduceEnds). The values of
/// these ranks are combined when a segment is sent or added. Only segments are staged. No other
/// rank may access the elements during the flow.
///
/// The values of an element are combined in ring order, starting with the rank after the owner of
/// its chunk. 16-bit floats are combined in float32 and rounded at every hop. Without a wire type,
/// kAverage divides once, at the owner. All ranks receive the owner's bits. For a wire type, see
/// NarrowAllreduceEnds. `buffer` must outlive the flow.
PreparedFlow prepare_ring_allreduce(const RingAllreduce& ring, const MappedBuffer& buffer,
                                    ReduceOp op);

/// Runs the allreduce for a buffer of this rank alone.
void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op, std::optional<Wire> wire = {});

}  // namespace horo::collectives

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

/// The 16-bit type in which a ring allreduce sends float32 values.
struct Wire {
  DataType type;       ///< kFloat16 or kBFloat16
  WireReport* report;  ///< the figures of the transfers are added here
};

/// The FlowEnds of a ring allreduce, except for what depends on the type in which segments are
/// sent. A rank represents all ranks whose buffers are in its MappedBuffer. It contributes the
/// values of these ranks, combined in rank order, and writes complete values to all of these
/// buffers. It stores partial results in its own buffer. The other ranks that it represents must
/// not run a flow over the same elements.
class AllreduceEnds : public FlowEnds {
 public:
  /// `ranks` is the number of all ranks whose values are combined. It is the divisor of kAverage.
  /// `buffer` must outlive this object.
  AllreduceEnds(const RingSegments& segments, const MappedBuffer& buffer, ReduceOp op,
                std::size_t ranks)
      : segments_(segments), buffer_(buffer), op_(op), ranks_(ranks) {}

 protected:
  const RingSegments& segments() const { return segments_; }
  const MappedBuffer& buffer() const { return buffer_; }
  ReduceOp op() const { return op_; }
  /// Whether the unit (see RingSchedule) carries partial results. Otherwise it carries complete
  /// values.
  bool is_reducing(std::size_t unit) const { return unit < segments_.schedule().reduce_units(); }
  /// Requires a unit `receive` that carries complete values. Returns the earlier unit in which this
  /// rank sent partial results of the same elements. In a ring of n ranks, that unit is n - 1 steps
  /// earlier.
  std::size_t replaced_send(std::size_t receive) const {
    return receive - segments_.schedule().reduce_units();
  }

  /// Combines the values of the represented ranks for the elements `range`, in rank order, and
  /// writes the result to `to`. If `op` is kAverage, divides the result by the number of all ranks.
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

  /// Combines the contribution of this rank to the elements `range` with partial results of the
  /// same type. If `is_complete`, divides for kAverage and writes the result to all buffers.
  /// Otherwise, writes the result only to the buffer of this rank.
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

  /// Copies complete values from `from` to the elements `range` of all buffers. If `from` is the
  /// address of these elements in one of the buffers, skips that buffer.
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
/// from the staging slots, and are combined in float32. Partial results are rounded each time they
/// are sent. Complete values are rounded once, by the owner of the chunk, so that all ranks end
/// with the same bits. kAverage divides the contribution of each rank before the contribution is
/// sent or combined, so that partial results do not grow with the number of ranks.
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
  // Segments are converted in tiles of this many elements, so that intermediate values stay in the
  // L1 cache.
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

/// Sends segments in the type of the buffer. A segment that is contiguous in the buffer of this
/// rank is sent directly from there. The exception is the first step with several mapped buffers,
/// because their values must first be combined in a staging slot. A segment of complete values that
/// is contiguous in the buffer of this rank is received directly into the buffer. All other
/// segments pass through staging slots.
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
  std::size_t segment_bytes = 0;  ///< the largest size of a segment as it is sent
  int ranks = 1;                  ///< the divisor of kAverage
  std::optional<Wire> wire;       ///< for float32; other types are sent unchanged
};

/// A flow that has not started.
struct PreparedFlow {
  SegmentFlow::Plan plan;
  std::unique_ptr<FlowEnds> ends;  ///< null if there is nothing to do
};

/// Prepares an allreduce in place in a ring. It is a reduce-scatter and an allgather in one stream
/// of segments (see RingSchedule). The reduction of a segment overlaps with the transfer of the
/// next segments. Cost for N bytes on n ranks that represent only themselves: the allreduce takes
/// 2(n-1) steps. Each rank sends 2(n-1)/n * N bytes, or half as many with a wire type, and reduces
/// (n-1)/n * N bytes.
///
/// A rank may represent other ranks whose buffers it has mapped (see AllreduceEnds). It combines
/// the values of these ranks when it sends a segment in the first step and when it adds to a
/// received segment. Only segments are staged. No other rank may access the elements in the mapped
/// buffers during the flow.
///
/// Rank r of the ring owns chunk r. The values of an element are combined in ring order, starting
/// with the rank after the owner of its chunk. 16-bit floats are combined in float32 and rounded in
/// each step. Without a wire type, kAverage divides once, at the owner. All ranks receive the bits
/// that the owner has computed. For a wire type, see NarrowAllreduceEnds.
///
/// `buffer` must outlive the flow.
PreparedFlow prepare_ring_allreduce(const RingAllreduce& ring, const MappedBuffer& buffer,
                                    ReduceOp op);

/// Runs the allreduce of prepare_ring_allreduce(). Each rank represents only itself, and kAverage
/// divides by `size`.
void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op, std::optional<Wire> wire = {});

}  // namespace horo::collectives

#include "collectives/ring/ring_allreduce.h"

#include <algorithm>
#include <cmath>

#include "collectives/buffers.h"
#include "collectives/chunks.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kWide = sizeof(float);
constexpr std::size_t kSampled = 64;  // the rounding error is computed for one in 64 values

// Cuts `range` into tiles of at most `tile_count` elements. Calls function(tile, first) for each
// tile, where `first` is the offset of the tile in `range`.
template <typename Function>
void for_each_tile(Range range, std::size_t tile_count, Function&& function) {
  for (std::size_t begin = range.begin; begin < range.end; begin += tile_count)
    function(Range{begin, std::min(begin + tile_count, range.end)}, begin - range.begin);
}

}  // namespace

std::span<const std::byte> NarrowAllreduceEnds::outgoing(std::size_t send,
                                                         std::span<std::byte> slot) {
  const Range range = segments().sent(send);
  if (segments().is_first_hop(send))
    for_each_tile(range, kTile, [&](Range tile, std::size_t first) {
      combine_own(tile, op(), values_.data());
      narrow(wire_.type, slot.data() + first * kElementBytes, values_.data(), tile.count());
      sample_error(values_.data(), slot.data() + first * kElementBytes, tile.count());
    });
  else
    narrow_own(range, is_reducing(send), slot.data());
  wire_.report->bytes_sent += range.count() * kElementBytes;
  wire_.report->bytes_saved += range.count() * (kWide - kElementBytes);
  return slot.first(range.count() * kElementBytes);
}

// All segments are converted in staging slots. A receive therefore never overwrites memory that a
// send reads, and may_receive() needs no condition.
std::span<std::byte> NarrowAllreduceEnds::incoming(std::size_t receive, std::span<std::byte> slot) {
  return slot.first(segments().received(receive).count() * kElementBytes);
}

void NarrowAllreduceEnds::process(std::size_t receive, std::span<const std::byte> bytes) {
  const bool is_complete = segments().is_last_hop(receive);
  for_each_tile(segments().received(receive), kTile, [&](Range tile, std::size_t first) {
    const std::byte* from = bytes.data() + first * kElementBytes;
    if (is_reducing(receive)) return add_tile(tile, from, is_complete);
    widen(wire_.type, values_.data(), from, tile.count());
    spread(tile, values_.data());
  });
}

// Combines in float32 and stores partial results as float32. They are rounded only when they are
// sent.
void NarrowAllreduceEnds::add_tile(Range tile, const std::byte* partial, bool is_complete) {
  combine_own(tile, op(), values_.data());
  widen(wire_.type, partial_.data(), partial, tile.count());
  const std::byte* const sources[] = {values_.data(), partial_.data()};
  reduce(DataType::kFloat32, without_division(op()), sources, tile.count(), 1, values_.data(),
         Stores::kPlain);
  if (!is_complete) return scatter(buffer().own(), tile, values_.data());
  // The owner also writes the rounded values, because all ranks must end with the same bits.
  narrow(wire_.type, rounded_.data(), values_.data(), tile.count());
  sample_error(values_.data(), rounded_.data(), tile.count());
  widen(wire_.type, values_.data(), rounded_.data(), tile.count());
  spread(tile, values_.data());
}

// Narrows the elements `range` of the buffer of this rank. Samples the error if `is_rounding`.
// `is_rounding` is false for complete values, which have been rounded to the wire type before.
void NarrowAllreduceEnds::narrow_own(Range range, bool is_rounding, std::byte* to) {
  buffer().own().for_each_span(range.begin, range.end,
                               [&](const std::byte* own, std::size_t first, std::size_t count) {
                                 narrow(wire_.type, to + first * kElementBytes, own, count);
                                 if (is_rounding)
                                   sample_error(own, to + first * kElementBytes, count);
                               });
}

// Adds the rounding errors of the first 1/64 of the values to the report. This is enough for an
// estimate, and the cost is small.
void NarrowAllreduceEnds::sample_error(const std::byte* wide, const std::byte* narrowed,
                                       std::size_t count) {
  const std::size_t sampled = (count + kSampled - 1) / kSampled;
  float before[64];
  float after[64];
  for (std::size_t begin = 0; begin < sampled; begin += 64) {
    const std::size_t n = std::min<std::size_t>(64, sampled - begin);
    std::copy_n(wide + begin * kWide, n * kWide, reinterpret_cast<std::byte*>(before));
    widen(wire_.type, reinterpret_cast<std::byte*>(after), narrowed + begin * kElementBytes, n);
    for (std::size_t i = 0; i < n; ++i) {
      const double error = double{before[i]} - double{after[i]};
      if (!std::isfinite(error)) {
        if (std::isfinite(before[i])) ++wire_.report->overflowed;
        continue;
      }
      wire_.report->squared_error += error * error;
      wire_.report->squared_values += double{before[i]} * double{before[i]};
    }
  }
}

std::span<const std::byte> PlainAllreduceEnds::outgoing(std::size_t send,
                                                        std::span<std::byte> slot) {
  const Range range = segments().sent(send);
  const ScatteredBuffer& own = buffer().own();
  const std::size_t bytes = range.count() * own.element_bytes();
  if (segments().is_first_hop(send) && buffer().ranks() > 1) {
    combine_own(range, without_division(op()), slot.data());
    return slot.first(bytes);
  }
  if (const std::byte* address = contiguous_address(own, range)) return {address, bytes};
  gather(own, range, slot.data());
  return slot.first(bytes);
}

std::span<std::byte> PlainAllreduceEnds::incoming(std::size_t receive, std::span<std::byte> slot) {
  const Range range = segments().received(receive);
  const std::size_t bytes = range.count() * buffer().own().element_bytes();
  std::byte* address = is_reducing(receive) ? nullptr : contiguous_address(buffer().own(), range);
  return address != nullptr ? std::span(address, bytes) : slot.first(bytes);
}

void PlainAllreduceEnds::process(std::size_t receive, std::span<const std::byte> bytes) {
  const Range range = segments().received(receive);
  if (is_reducing(receive))
    add(range, bytes.data(), segments().is_last_hop(receive));
  else
    spread(range, bytes.data());
}

// A segment of complete values overwrites elements that this rank has sent before, as partial
// results. Its receive is posted only after that send is done. The send is n - 1 steps earlier, so
// this condition rarely delays the ring.
bool PlainAllreduceEnds::may_receive(std::size_t receive, std::size_t sends_done) const {
  return is_reducing(receive) || replaced_send(receive) < sends_done;
}

PreparedFlow prepare_ring_allreduce(const RingAllreduce& ring, const MappedBuffer& buffer,
                                    ReduceOp op) {
  if (ring.size == 1 || buffer.own().count() == 0) return {};
  const bool is_narrow = ring.wire && buffer.own().type() == DataType::kFloat32;
  const std::size_t width =
      is_narrow ? NarrowAllreduceEnds::kElementBytes : buffer.own().element_bytes();
  const std::vector<std::size_t> sizes =
      chunk_sizes(buffer.own().count(), static_cast<std::size_t>(ring.size));
  const std::size_t segment_count = segment_elements(sizes.front(), width, ring.segment_bytes);
  const RingSegments segments(ring.rank, ring.size, PartOffsets(sizes), sizes.front(),
                              segment_count);
  const auto ranks = static_cast<std::size_t>(ring.ranks);
  PreparedFlow flow;
  flow.plan =
      segments.plan(segments.schedule().allreduce_units(), segment_count * width, "an allreduce");
  if (is_narrow)
    flow.ends = std::make_unique<NarrowAllreduceEnds>(segments, buffer, op, ranks, *ring.wire);
  else
    flow.ends = std::make_unique<PlainAllreduceEnds>(segments, buffer, op, ranks);
  return flow;
}

void ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    const ScatteredBuffer& buffer, ReduceOp op, std::optional<Wire> wire) {
  const MappedBuffer own(buffer);
  const PreparedFlow prepared =
      prepare_ring_allreduce({rank, size, segment_bytes, size, wire}, own, op);
  if (prepared.ends != nullptr) flow.run(prepared.plan, *prepared.ends);
}

}  // namespace horo::collectives

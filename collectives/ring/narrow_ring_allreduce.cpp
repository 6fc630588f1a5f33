#include "collectives/ring/narrow_ring_allreduce.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "collectives/reduce/division.h"
#include "collectives/ring/allreduce_ends.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kWide = sizeof(float);
constexpr std::size_t kNarrow = 2;
constexpr std::size_t kSampled = 64;  // of how many values one is looked at for the error

class NarrowAllreduceEnds : public AllreduceEnds {
 public:
  NarrowAllreduceEnds(const RingSchedule& schedule, int size, std::size_t segment_count,
                      const ScatteredBuffer& buffer, ReduceOp op, DataType wire, WireReport& report)
      : AllreduceEnds(schedule, size, segment_count, buffer, op),
        wire_(wire),
        report_(report),
        partial_(segment_count * kWide),
        rounded_(segment_count * kNarrow) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override {
    const Range range = sent_range(send);
    narrow_range(range, slot.data(), is_reducing(send));
    report_.bytes_sent += range.count() * kNarrow;
    report_.bytes_saved += range.count() * (kWide - kNarrow);
    return slot.first(range.count() * kNarrow);
  }

  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    return slot.first(received_range(receive).count() * kNarrow);
  }

  void arrived(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = received_range(receive);
    if (!is_reducing(receive)) return widen_to(range, bytes.data());
    widen(wire_, partial_.data(), bytes.data(), range.count());
    add(receive, range, partial_.data());
    if (!is_last_hop(receive)) return;
    narrow_range(range, rounded_.data(), true);
    widen_to(range, rounded_.data());
  }

 private:
  // is_rounding: the values are not yet such as the wire type has.
  void narrow_range(Range range, std::byte* to, bool is_rounding) {
    buffer().for_each_stretch(range.begin, range.end,
                              [&](const std::byte* own, std::size_t first, std::size_t count) {
                                narrow(wire_, to + first * kNarrow, own, count);
                                if (is_rounding) sample_error(own, to + first * kNarrow, count);
                              });
  }
  void widen_to(Range range, const std::byte* from) {
    buffer().for_each_stretch(range.begin, range.end,
                              [&](std::byte* own, std::size_t first, std::size_t count) {
                                widen(wire_, own, from + first * kNarrow, count);
                              });
  }
  // Looks at the beginning of a stretch: enough for an estimate, and next to nothing to do.
  void sample_error(const std::byte* wide, const std::byte* narrowed, std::size_t count) {
    const std::size_t sampled = (count + kSampled - 1) / kSampled;
    float before[64];
    float after[64];
    for (std::size_t begin = 0; begin < sampled; begin += 64) {
      const std::size_t n = std::min<std::size_t>(64, sampled - begin);
      std::copy_n(wide + begin * kWide, n * kWide, reinterpret_cast<std::byte*>(before));
      widen(wire_, reinterpret_cast<std::byte*>(after), narrowed + begin * kNarrow, n);
      for (std::size_t i = 0; i < n; ++i) {
        const double error = double{before[i]} - double{after[i]};
        if (!std::isfinite(error)) {
          if (std::isfinite(before[i])) ++report_.overflowed;
          continue;
        }
        report_.squared_error += error * error;
        report_.squared_values += double{before[i]} * double{before[i]};
      }
    }
  }

  DataType wire_;
  WireReport& report_;
  std::vector<std::byte> partial_;  // a received segment as float32
  std::vector<std::byte> rounded_;  // a finished segment as it will travel
};

}  // namespace

void narrow_ring_allreduce(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                           const ScatteredBuffer& buffer, ReduceOp op, DataType wire,
                           WireReport& report) {
  if (size == 1 || buffer.count() == 0) return;
  const std::size_t largest = chunk_of(buffer.count(), static_cast<std::size_t>(size), 0).count();
  const std::size_t segment_count = segment_elements(largest, kNarrow, segment_bytes);
  const RingSchedule schedule(rank, size, segments_covering(largest, segment_count));
  // Before anything travels: the sum of all ranks need not fit into the wire type.
  divide_if_average(buffer, op, size);
  NarrowAllreduceEnds ends(schedule, size, segment_count, buffer, without_division(op), wire,
                           report);
  flow.run(allreduce_plan(schedule, segment_count * kNarrow), ends);
}

}  // namespace horo::collectives

#include "collectives/ring/narrow_allreduce_ends.h"

#include <algorithm>
#include <cmath>

#include "collectives/stretches.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kWide = sizeof(float);
constexpr std::size_t kSampled = 64;  // of how many values one is looked at for the error

// Calls function(tile, first) for the tiles of `range`; `first` is a tile's offset from its begin.
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

std::span<std::byte> NarrowAllreduceEnds::incoming(std::size_t receive, std::span<std::byte> slot) {
  return slot.first(segments().received(receive).count() * kElementBytes);
}

void NarrowAllreduceEnds::arrived(std::size_t receive, std::span<const std::byte> bytes) {
  const bool is_complete = segments().is_last_hop(receive);
  for_each_tile(segments().received(receive), kTile, [&](Range tile, std::size_t first) {
    const std::byte* from = bytes.data() + first * kElementBytes;
    if (is_reducing(receive)) return add_tile(tile, from, is_complete);
    widen(wire_.type, values_.data(), from, tile.count());
    spread(tile, values_.data());
  });
}

void NarrowAllreduceEnds::add_tile(Range tile, const std::byte* partial, bool is_complete) {
  combine_own(tile, op(), values_.data());
  widen(wire_.type, partial_.data(), partial, tile.count());
  const std::byte* const sources[] = {values_.data(), partial_.data()};
  reduce(DataType::kFloat32, without_division(op()), sources, tile.count(), 1, values_.data(),
         Stores::kPlain);
  if (!is_complete) return scatter(buffer().own(), tile, values_.data());
  narrow(wire_.type, rounded_.data(), values_.data(), tile.count());
  sample_error(values_.data(), rounded_.data(), tile.count());
  widen(wire_.type, values_.data(), rounded_.data(), tile.count());
  spread(tile, values_.data());
}

// is_rounding: the values are not yet such as the wire type has.
void NarrowAllreduceEnds::narrow_own(Range range, bool is_rounding, std::byte* to) {
  buffer().own().for_each_stretch(range.begin, range.end,
                                  [&](const std::byte* own, std::size_t first, std::size_t count) {
                                    narrow(wire_.type, to + first * kElementBytes, own, count);
                                    if (is_rounding)
                                      sample_error(own, to + first * kElementBytes, count);
                                  });
}

// Looks at the beginning: enough for an estimate, and next to nothing to do.
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

}  // namespace horo::collectives

// Compiled once for each instruction set, with HORO_KERNELS naming its namespace.
#include <cstddef>
#include <cstdint>

#include "collectives/reduce/conversion_kernels.h"
#include "collectives/reduce/copy_kernels.h"
#include "collectives/reduce/kernel_table.h"
#include "collectives/reduce/lane_operations.h"
#include "collectives/reduce/lanes.h"

namespace horo::collectives::HORO_KERNELS {
namespace {

// Vectors handled together: enough additions in flight to hide their latency.
constexpr std::size_t kVectorsPerStrip = 4;

std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

// Count: how many sources, 0 if known only at run time. A ragged strip (at the end, and at the
// start of streamed output up to its first aligned byte) goes through the same instructions as a
// whole one, by way of a padded copy, so that an element's value does not depend on where a buffer
// is cut.
template <typename Lanes, typename T, ReduceOp Op, std::size_t Count>
void reduce_strips(const ReduceArguments& a) {
  using Packed = typename Lanes::Packed;
  constexpr std::size_t kStripBytes = kVectorsPerStrip * sizeof(Packed);
  const std::size_t source_count = Count == 0 ? a.source_count : Count;
  const std::size_t bytes = a.count * sizeof(typename Lanes::Element);
  const std::size_t head = a.is_streaming ? bytes_to_aligned(a.outs[0], sizeof(Packed)) : 0;
  const bool is_streaming = a.is_streaming && head % sizeof(typename Lanes::Element) == 0;
  const Divider<T> divide(a.divisor);
  alignas(64) std::byte padded[kStripBytes] = {};

  for (std::size_t at = 0, step; at < bytes; at += step) {
    step = smaller(at < head && is_streaming ? head - at : kStripBytes, bytes - at);
    const bool is_ragged = step < kStripBytes;
    const auto strip_of = [&](std::size_t s) -> const std::byte* {
      const std::byte* strip = a.sources[s] + at;
      if (!is_ragged) [[likely]]
        return strip;
      copy_few_in(padded, strip, step);
      return padded;
    };
    typename Lanes::Unpacked sums[kVectorsPerStrip];
    const std::byte* first = strip_of(0);
    for (std::size_t v = 0; v < kVectorsPerStrip; ++v)
      sums[v] = Lanes::unpack(load_bytes<Packed>(first + v * sizeof(Packed)));
    for (std::size_t s = 1; s < source_count; ++s) {
      const std::byte* next = strip_of(s);
      for (std::size_t v = 0; v < kVectorsPerStrip; ++v) {
        const auto values = Lanes::unpack(load_bytes<Packed>(next + v * sizeof(Packed)));
        for (std::size_t p = 0; p < Lanes::kParts; ++p)
          sums[v].part[p] = combine<Op, T>(sums[v].part[p], values.part[p]);
      }
    }
    Packed results[kVectorsPerStrip];
    for (std::size_t v = 0; v < kVectorsPerStrip; ++v) {
      if constexpr (Op == ReduceOp::kAverage)
        for (Vector<T>& part : sums[v].part) part = divide(part);
      results[v] = Lanes::pack(sums[v]);
    }
    if (is_ragged) [[unlikely]] {
      for (std::size_t o = 0; o < a.out_count; ++o)
        copy_few_out(a.outs[o] + at, reinterpret_cast<const std::byte*>(results), step);
      continue;
    }
    for (std::size_t v = 0; v < kVectorsPerStrip; ++v)
      if (is_streaming)
        store_streaming(a.outs[0] + at + v * sizeof(Packed), results[v]);
      else
        __builtin_memcpy(a.outs[0] + at + v * sizeof(Packed), &results[v], sizeof(Packed));
    for (std::size_t o = 1; o < a.out_count; ++o)
      __builtin_memcpy(a.outs[o] + at, results, sizeof results);
  }
}

template <typename Lanes, typename T, ReduceOp Op>
void reduce(const ReduceArguments& a) {
  switch (a.source_count) {
    case 2:
      return reduce_strips<Lanes, T, Op, 2>(a);
    case 3:
      return reduce_strips<Lanes, T, Op, 3>(a);
    case 4:
      return reduce_strips<Lanes, T, Op, 4>(a);
    default:
      return reduce_strips<Lanes, T, Op, 0>(a);
  }
}

}  // namespace

#define HORO_KERNELS_OF(Lanes, T)                                           \
  {                                                                         \
    reduce<Lanes, T, ReduceOp::kAverage>, reduce<Lanes, T, ReduceOp::kSum>, \
        reduce<Lanes, T, ReduceOp::kMin>, reduce<Lanes, T, ReduceOp::kMax>, \
        reduce<Lanes, T, ReduceOp::kProduct>                                \
  }

// Of bytes that are 0 or 1: the sum is the maximum, the product the minimum. There is no average;
// callers refuse it.
#define HORO_KERNELS_OF_BOOL                                            \
  {                                                                     \
    reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMax>,     \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMax>, \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMin>, \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMax>, \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMin>  \
  }

// In the order of DataType and of ReduceOp.
extern const KernelTable kTable = {
    HORO_KERNELS_NAME,
    {HORO_KERNELS_OF(PlainLanes<float>, float), HORO_KERNELS_OF(PlainLanes<double>, double),
     HORO_KERNELS_OF(Float16Lanes, float), HORO_KERNELS_OF(BFloat16Lanes, float),
     HORO_KERNELS_OF(PlainLanes<std::int8_t>, std::int8_t),
     HORO_KERNELS_OF(PlainLanes<std::uint8_t>, std::uint8_t),
     HORO_KERNELS_OF(PlainLanes<std::int16_t>, std::int16_t),
     HORO_KERNELS_OF(PlainLanes<std::uint16_t>, std::uint16_t),
     HORO_KERNELS_OF(PlainLanes<std::int32_t>, std::int32_t),
     HORO_KERNELS_OF(PlainLanes<std::int64_t>, std::int64_t), HORO_KERNELS_OF_BOOL},
    {narrow_to_float16, narrow_to_bfloat16},
    {widen_from_float16, widen_from_bfloat16},
    plain_copy,
    streaming_copy,
    fence};

}  // namespace horo::collectives::HORO_KERNELS

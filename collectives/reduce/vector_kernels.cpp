// The kernels of one instruction set. This file is compiled once per instruction set, with
// HORO_KERNELS as the name of its namespace (see lanes.h for the rule that its code follows).

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/reduce/kernel_table.h"
#include "collectives/reduce/lanes.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives::HORO_KERNELS {
namespace {

// Returns `a Op b` for each lane of vectors of T. Integers wrap.
template <ReduceOp Op, typename T>
inline Vector<T> combine(Vector<T> a, Vector<T> b) {
  // Comparisons with NaN are false. Minimum and maximum therefore keep a NaN in `a` and ignore a
  // NaN in `b`.
  if constexpr (Op == ReduceOp::kMin) {
    return b < a ? b : a;  // returns `a` if the values are equal, such as -0 and 0
  } else if constexpr (Op == ReduceOp::kMax) {
    return b > a ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    using Wrapping = Vector<std::make_unsigned_t<T>>;
    if constexpr (Op == ReduceOp::kProduct) return (Vector<T>)((Wrapping)a * (Wrapping)b);
    return (Vector<T>)((Wrapping)a + (Wrapping)b);
  } else {
    if constexpr (Op == ReduceOp::kProduct) return a * b;
    return a + b;
  }
}

// The last step of kAverage. Multiplies a float by T(1)/divisor. Divides an integer and rounds
// toward zero.
template <typename T>
class Divider {
 public:
  explicit Divider(std::size_t divisor)
      : divisor_(static_cast<std::int64_t>(divisor)),
        factor_(Factor(1) / static_cast<Factor>(divisor)) {}

  Vector<T> operator()(Vector<T> value) const {
    if constexpr (std::is_integral_v<T>) {
      T lanes[sizeof value / sizeof(T)];
      __builtin_memcpy(lanes, &value, sizeof value);
      for (T& lane : lanes) lane = static_cast<T>(lane / divisor_);
      __builtin_memcpy(&value, lanes, sizeof value);
      return value;
    } else {
      return value * factor_;
    }
  }

 private:
  using Factor = std::conditional_t<std::is_integral_v<T>, double, T>;
  std::int64_t divisor_;
  Factor factor_;
};

// Conversions between float32 and the 16-bit floats. Narrowing rounds to nearest, ties to even.
// Widening is exact. Any alignment is allowed. The ranges must not overlap.

using Halves = Vector<std::uint16_t, kVectorBytes / 2>;

struct BFloat16Conversion {
  static Halves narrow(Floats values) {
    return __builtin_convertvector(BFloat16Lanes::rounded(values) >> 16, Halves);
  }
  static Floats widen(Halves bits) { return (Floats)(__builtin_convertvector(bits, Words) << 16); }
};

struct Float16Conversion {
#if defined(__F16C__)
  static Halves narrow(Floats values) { return Float16Lanes::pack({{values}}); }
  static Floats widen(Halves bits) { return Float16Lanes::unpack(bits).part[0]; }
#else
  static Halves narrow(Floats values) {
    return __builtin_convertvector(Float16Lanes::narrow(values), Halves);
  }
  static Floats widen(Halves bits) {
    return Float16Lanes::widen(__builtin_convertvector(bits, Words));
  }
#endif
};

// Converts each vector of From to a vector of To. A partial vector at the end is converted in a
// padded copy.
template <typename From, typename To, typename Convert>
void convert_all(std::byte* to, const std::byte* from, std::size_t count, Convert convert) {
  constexpr std::size_t kLanes = kVectorBytes / sizeof(float);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const To values = convert(load_bytes<From>(from + i * sizeof(From) / kLanes));
    __builtin_memcpy(to + i * sizeof(To) / kLanes, &values, sizeof values);
  }
  if (i == count) return;
  From padded = {};
  __builtin_memcpy(&padded, from + i * sizeof(From) / kLanes, (count - i) * sizeof(From) / kLanes);
  const To values = convert(padded);
  __builtin_memcpy(to + i * sizeof(To) / kLanes, &values, (count - i) * sizeof(To) / kLanes);
}

void narrow_to_float16(std::byte* to, const std::byte* from, std::size_t count) {
  convert_all<Floats, Halves>(to, from, count, Float16Conversion::narrow);
}
void narrow_to_bfloat16(std::byte* to, const std::byte* from, std::size_t count) {
  convert_all<Floats, Halves>(to, from, count, BFloat16Conversion::narrow);
}
void widen_from_float16(std::byte* to, const std::byte* from, std::size_t count) {
  convert_all<Halves, Floats>(to, from, count, Float16Conversion::widen);
}
void widen_from_bfloat16(std::byte* to, const std::byte* from, std::size_t count) {
  convert_all<Halves, Floats>(to, from, count, BFloat16Conversion::widen);
}

// Copies between ranges of bytes that do not overlap, at any alignment. The copies use the widest
// aligned stores of the instruction set, either plain or streaming.

using Block = Vector<std::uint64_t>;
// The number of blocks that are loaded before the first of them is stored.
constexpr std::size_t kBlocksPerStrip = 4;
constexpr std::size_t kCopyStripBytes = kBlocksPerStrip * sizeof(Block);

void store_aligned(std::byte* to, Block value) {
  __builtin_memcpy(__builtin_assume_aligned(to, sizeof(Block)), &value, sizeof value);
}

template <void Store(std::byte*, Block)>
void copy_strips(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = bytes_to_aligned(to, 64) < bytes ? bytes_to_aligned(to, 64) : bytes;
  __builtin_memcpy(to, from, at);
  for (; at + kCopyStripBytes <= bytes; at += kCopyStripBytes) {
    Block strip[kBlocksPerStrip];
    for (std::size_t b = 0; b < kBlocksPerStrip; ++b)
      strip[b] = load_bytes<Block>(from + at + b * sizeof(Block));
    for (std::size_t b = 0; b < kBlocksPerStrip; ++b) Store(to + at + b * sizeof(Block), strip[b]);
  }
  __builtin_memcpy(to + at, from + at, bytes - at);
}

void plain_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_strips<store_aligned>(to, from, bytes);
}

void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_strips<store_streaming<Block>>(to, from, bytes);
}

// Orders earlier streaming stores before all later stores.
void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Vectors per strip. Several independent operations in flight hide the latency of each operation.
constexpr std::size_t kVectorsPerStrip = 4;

std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

// Count is the number of sources, or 0 if it is known only at run time. A partial strip is reduced
// in a padded copy by the same instructions as a whole strip. The value of an element therefore
// does not depend on where a buffer is cut. Partial strips are at the end and, with streaming
// stores, before the first aligned byte of outs[0]. All sources of a strip are read before any
// output of the same strip is written, so an output may be one of the sources.
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

// Bools are bytes with value 0 or 1. Their sum is the maximum, and their product is the minimum.
// Callers reject the average, so the entry for kAverage is never used.
#define HORO_KERNELS_OF_BOOL                                            \
  {                                                                     \
    reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMax>,     \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMax>, \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMin>, \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMax>, \
        reduce<PlainLanes<std::uint8_t>, std::uint8_t, ReduceOp::kMin>  \
  }

// Rows are in the order of DataType, columns in the order of ReduceOp.
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

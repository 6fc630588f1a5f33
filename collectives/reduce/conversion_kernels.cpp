// Compiled once for each instruction set, with HORO_KERNELS naming its namespace.
#include "collectives/reduce/conversion_kernels.h"

#include <cstdint>

#include "collectives/reduce/lanes.h"

namespace horo::collectives::HORO_KERNELS {
namespace {

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

// `convert` of each vector of From to one of To; the last, ragged one by way of a padded copy.
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

}  // namespace

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

}  // namespace horo::collectives::HORO_KERNELS

#pragma once

#include <type_traits>

#include "horo/base/float16.h"
#include "horo/device/launch.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace horo::device {

/// Converts a 16-bit floating point element exactly to float. Returns any other element unchanged.
template <typename T>
HORO_KERNEL auto widen(T x) {
  return x;
}
HORO_KERNEL inline float widen(Float16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  return static_cast<float>(x);
#endif
}
HORO_KERNEL inline float widen(BFloat16 x) {
#if defined(__CUDA_ARCH__)
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
#else
  return static_cast<float>(x);
#endif
}

/// Converts `x` to T. Floating point types round to nearest, ties to even. The bits are the same on
/// host and device, except for the payload of a NaN.
template <typename T, typename Wide>
HORO_KERNEL T narrow(Wide x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, Float16>) {
    T narrow;
    narrow.bits = __half_as_ushort(__float2half_rn(x));
    return narrow;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    T narrow;
    narrow.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    return narrow;
  } else {
    return static_cast<T>(x);
  }
#else
  return static_cast<T>(x);
#endif
}

}  // namespace horo::device

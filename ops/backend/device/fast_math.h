#pragma once

#include <cmath>

#include "horo/device/launch.h"

namespace horo::ops::device_kernels {

/// e^x; on a GPU within (2 + |x|) units in the last place, in two instructions.
HORO_KERNEL inline float fast_exp(float x) {
#if defined(__CUDA_ARCH__)
  return __expf(x);
#else
  return std::exp(x);
#endif
}

/// 1 / (1 + e^-x).
HORO_KERNEL inline float sigmoid(float x) { return 1 / (1 + fast_exp(-x)); }

/// Loads a value that the kernel does not write, so that the compiler need not load it again after
/// every store.
HORO_KERNEL inline float load_constant(const float* from) {
#if defined(__CUDA_ARCH__)
  return __ldg(from);
#else
  return *from;
#endif
}

}  // namespace horo::ops::device_kernels

#pragma once

#include <cstdint>
#include <cstring>

#include "horo/device/launch.h"

namespace horo::device {

/// The 16 bytes that one vectorized load or store of a thread moves.
struct alignas(16) [[gnu::may_alias]] Vector16 {
  std::uint32_t bits[4];
};

/// Whether `data` is aligned for vectorized access.
HORO_KERNEL inline bool is_vector_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Vector16) == 0;
}

#if defined(__CUDACC__)
HORO_KERNEL inline Vector16 vector_of(const uint4& value) {
  return {{value.x, value.y, value.z, value.w}};
}
#endif

/// Loads kCount elements from `from`, which must be aligned for vectorized access. kCount elements
/// must fill whole vectors. Uses intrinsics because nvcc does not merge loads of narrow elements
/// and splits plain vector loads.
template <typename T, unsigned kCount>
HORO_KERNEL void load_vectors(T (&values)[kCount], const T* from) {
  constexpr unsigned kVectors = kCount * sizeof(T) / sizeof(Vector16);
  static_assert(kVectors * sizeof(Vector16) == sizeof values);
  Vector16 vectors[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
#if defined(__CUDA_ARCH__)
    vectors[v] = vector_of(__ldca(reinterpret_cast<const uint4*>(from) + v));
#else
    vectors[v] = *(reinterpret_cast<const Vector16*>(from) + v);
#endif
  }
  std::memcpy(values, vectors, sizeof values);
}

/// Like load_vectors(), for data that is not read again soon. On a GPU, this is a streaming load,
/// whose data is evicted from the caches first.
template <typename T, unsigned kCount>
HORO_KERNEL void load_vectors_once(T (&values)[kCount], const T* from) {
#if defined(__CUDA_ARCH__)
  constexpr unsigned kVectors = kCount * sizeof(T) / sizeof(Vector16);
  static_assert(kVectors * sizeof(Vector16) == sizeof values);
  Vector16 vectors[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
    vectors[v] = vector_of(__ldcs(reinterpret_cast<const uint4*>(from) + v));
  }
  std::memcpy(values, vectors, sizeof values);
#else
  load_vectors(values, from);
#endif
}

/// Stores kCount elements to `to`, with the requirements of load_vectors().
template <typename T, unsigned kCount>
HORO_KERNEL void store_vectors(T* to, const T (&values)[kCount]) {
  constexpr unsigned kVectors = kCount * sizeof(T) / sizeof(Vector16);
  static_assert(kVectors * sizeof(Vector16) == sizeof values);
  Vector16 vectors[kVectors];
  std::memcpy(vectors, values, sizeof values);
  for (unsigned v = 0; v < kVectors; ++v) {
#if defined(__CUDA_ARCH__)
    __stcg(reinterpret_cast<uint4*>(to) + v, make_uint4(vectors[v].bits[0], vectors[v].bits[1],
                                                        vectors[v].bits[2], vectors[v].bits[3]));
#else
    *(reinterpret_cast<Vector16*>(to) + v) = vectors[v];
#endif
  }
}

}  // namespace horo::device

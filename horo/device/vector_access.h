#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "horo/device/launch.h"

namespace horo::device {

/// The 16 bytes that one vectorized load or store of a thread moves.
struct alignas(16) [[gnu::may_alias]] Vector16 {
  std::uint32_t bits[4];
};

/// Half as much, for a type that is accessed beside a type of twice its size.
struct alignas(8) [[gnu::may_alias]] Vector8 {
  std::uint32_t bits[2];
};

/// The word with which kCount elements of T are accessed: 16 bytes, or 8 if they have only 8.
template <typename T, unsigned kCount>
using VectorFor = std::conditional_t<kCount * sizeof(T) == sizeof(Vector8), Vector8, Vector16>;

/// Whether `data` is aligned for vectorized access.
HORO_KERNEL inline bool is_vector_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Vector16) == 0;
}

#if defined(__CUDACC__)
HORO_KERNEL inline Vector16 vector_of(const uint4& value) {
  return {{value.x, value.y, value.z, value.w}};
}
HORO_KERNEL inline Vector8 vector_of(const uint2& value) { return {{value.x, value.y}}; }
HORO_KERNEL inline uint4 native(const Vector16& vector) {
  return make_uint4(vector.bits[0], vector.bits[1], vector.bits[2], vector.bits[3]);
}
HORO_KERNEL inline uint2 native(const Vector8& vector) {
  return make_uint2(vector.bits[0], vector.bits[1]);
}
/// The type of CUDA with the size of Vector.
template <typename Vector>
using NativeVector = decltype(native(Vector{}));
#endif

/// Loads kCount elements from `from`, which must be aligned for vectorized access. kCount elements
/// must fill whole vectors (VectorFor). Uses intrinsics because nvcc does not merge loads of narrow
/// elements and splits plain vector loads.
template <typename T, unsigned kCount>
HORO_KERNEL void load_vectors(T (&values)[kCount], const T* from) {
  using Vector = VectorFor<T, kCount>;
  constexpr unsigned kVectors = kCount * sizeof(T) / sizeof(Vector);
  static_assert(kVectors * sizeof(Vector) == sizeof values);
  Vector vectors[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
#if defined(__CUDA_ARCH__)
    vectors[v] = vector_of(__ldca(reinterpret_cast<const NativeVector<Vector>*>(from) + v));
#else
    vectors[v] = *(reinterpret_cast<const Vector*>(from) + v);
#endif
  }
  std::memcpy(values, vectors, sizeof values);
}

/// Like load_vectors(), for data that is not read again soon. On a GPU, this is a streaming load,
/// whose data is evicted from the caches first.
template <typename T, unsigned kCount>
HORO_KERNEL void load_vectors_once(T (&values)[kCount], const T* from) {
#if defined(__CUDA_ARCH__)
  using Vector = VectorFor<T, kCount>;
  constexpr unsigned kVectors = kCount * sizeof(T) / sizeof(Vector);
  static_assert(kVectors * sizeof(Vector) == sizeof values);
  Vector vectors[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
    vectors[v] = vector_of(__ldcs(reinterpret_cast<const NativeVector<Vector>*>(from) + v));
  }
  std::memcpy(values, vectors, sizeof values);
#else
  load_vectors(values, from);
#endif
}

/// Stores kCount elements to `to`, with the requirements of load_vectors().
template <typename T, unsigned kCount>
HORO_KERNEL void store_vectors(T* to, const T (&values)[kCount]) {
  using Vector = VectorFor<T, kCount>;
  constexpr unsigned kVectors = kCount * sizeof(T) / sizeof(Vector);
  static_assert(kVectors * sizeof(Vector) == sizeof values);
  Vector vectors[kVectors];
  std::memcpy(vectors, values, sizeof values);
  for (unsigned v = 0; v < kVectors; ++v) {
#if defined(__CUDA_ARCH__)
    __stcg(reinterpret_cast<NativeVector<Vector>*>(to) + v, native(vectors[v]));
#else
    *(reinterpret_cast<Vector*>(to) + v) = vectors[v];
#endif
  }
}

}  // namespace horo::device

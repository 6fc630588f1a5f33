#pragma once

#include <cstddef>

#include "horo/device/float_conversion.h"
#include "horo/device/vector_access.h"

namespace horo::ops::device_kernels {

/// The unit of work of a thread: kCount elements, which are read and written in words, or one
/// element.
template <unsigned kCount>
struct Piece {
  static constexpr unsigned kSize = kCount;
};

/// The number of elements of T in a word of 16 bytes.
template <typename T>
inline constexpr unsigned kPerVector = sizeof(device::Vector16) / sizeof(T);

/// The number of elements in a piece of gradients of any type. It is the same for all types, so
/// that sums are in the same order and have the same bits.
inline constexpr unsigned kGradientPiece = 8;

/// Multiplies a gradient by the scale that the exchange has left to its reader. The product is
/// rounded by itself and not fused with an addition, so results are equal to those of a separate
/// pass.
HORO_KERNEL inline float scaled(float gradient, float scale) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(gradient, scale);
#else
  return gradient * scale;
#endif
}

/// Calls use(piece, index) for the pieces of this thread in [begin, end). If all arrays are
/// `aligned` at `begin`, pieces have kCount elements, and the rest at the end has pieces of one.
/// Otherwise all pieces have one element.
template <unsigned kCount, typename Use>
HORO_KERNEL void for_each_piece(std::size_t begin, std::size_t end, bool aligned, unsigned thread,
                                unsigned threads, const Use& use) {
  const std::size_t words_end = aligned ? begin + (end - begin) / kCount * kCount : begin;
  for (std::size_t i = begin + thread * kCount; i < words_end; i += threads * kCount)
    use(Piece<kCount>{}, i);
  for (std::size_t i = words_end + thread; i < end; i += threads) use(Piece<1>{}, i);
}

/// Reads a piece as floats.
template <typename T, unsigned kCount>
HORO_KERNEL void load_piece(float (&values)[kCount], const T* from) {
  T narrow[kCount];
  if constexpr (kCount == 1)
    narrow[0] = *from;
  else
    device::load_vectors(narrow, from);
  for (unsigned i = 0; i < kCount; ++i) values[i] = device::widen(narrow[i]);
}
/// The same for data that is not read again soon.
template <typename T, unsigned kCount>
HORO_KERNEL void load_piece_once(float (&values)[kCount], const T* from) {
  T narrow[kCount];
  if constexpr (kCount == 1)
    narrow[0] = *from;
  else
    device::load_vectors_once(narrow, from);
  for (unsigned i = 0; i < kCount; ++i) values[i] = device::widen(narrow[i]);
}

/// Writes a piece and rounds to nearest.
template <typename T, unsigned kCount>
HORO_KERNEL void store_piece(T* to, const float (&values)[kCount]) {
  T narrow[kCount];
  for (unsigned i = 0; i < kCount; ++i) narrow[i] = device::narrow<T>(values[i]);
  if constexpr (kCount == 1)
    *to = narrow[0];
  else
    device::store_vectors(to, narrow);
}

}  // namespace horo::ops::device_kernels

#pragma once

#include <cstddef>

#include "horo/base/device/float_conversion.h"
#include "horo/base/device/words.h"

namespace horo::ops::device_kernels {

/// What a thread works on at a time: kCount elements, read and written in words, or one.
template <unsigned kCount>
struct Piece {
  static constexpr unsigned kSize = kCount;
};

/// Elements of T in a word.
template <typename T>
inline constexpr unsigned kPerWord = sizeof(device::Word) / sizeof(T);

/// Elements of a piece of gradients, whatever their type and what goes with them: so that sums over
/// them are in one order, and have the same bits, in whichever type gradients have come.
inline constexpr unsigned kGradientPiece = 8;

/// A gradient times what is left to multiply it with, rounded as the pass would have rounded it
/// that the exchange has left to the reader: not together with what it is added to.
HORO_KERNEL inline float scaled(float gradient, float scale) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(gradient, scale);
#else
  return gradient * scale;
#endif
}

/// Calls use(piece, index) for this thread's pieces of [begin, end): of kCount elements as far as
/// that goes if arrays are `aligned` at `begin`, then of one.
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
    device::load_words(narrow, from);
  for (unsigned i = 0; i < kCount; ++i) values[i] = device::widen(narrow[i]);
}
/// The same for what is not read again soon.
template <typename T, unsigned kCount>
HORO_KERNEL void load_piece_once(float (&values)[kCount], const T* from) {
  T narrow[kCount];
  if constexpr (kCount == 1)
    narrow[0] = *from;
  else
    device::load_words_once(narrow, from);
  for (unsigned i = 0; i < kCount; ++i) values[i] = device::widen(narrow[i]);
}

/// Writes it, rounded.
template <typename T, unsigned kCount>
HORO_KERNEL void store_piece(T* to, const float (&values)[kCount]) {
  T narrow[kCount];
  for (unsigned i = 0; i < kCount; ++i) narrow[i] = device::narrow<T>(values[i]);
  if constexpr (kCount == 1)
    *to = narrow[0];
  else
    device::store_words(to, narrow);
}

}  // namespace horo::ops::device_kernels

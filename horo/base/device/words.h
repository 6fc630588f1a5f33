#pragma once

#include <cstdint>
#include <cstring>

#include "horo/base/device/launch.h"

namespace horo::device {

/// What a thread reads or writes in one instruction.
struct alignas(16) [[gnu::may_alias]] Word {
  std::uint32_t bits[4];
};

/// Whether words may begin at `data`.
HORO_KERNEL inline bool is_word_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Word) == 0;
}

#if defined(__CUDACC__)
HORO_KERNEL inline Word word_of(const uint4& word) { return {{word.x, word.y, word.z, word.w}}; }
#endif

/// Reads kCount elements, which are whole words and begin at one. By intrinsics, since nvcc
/// joins no narrow elements to words by itself, and takes plain loads of words apart.
template <typename T, unsigned kCount>
HORO_KERNEL void load_words(T (&values)[kCount], const T* from) {
  constexpr unsigned kWords = kCount * sizeof(T) / sizeof(Word);
  static_assert(kWords * sizeof(Word) == sizeof values);
  Word words[kWords];
  for (unsigned w = 0; w < kWords; ++w) {
#if defined(__CUDA_ARCH__)
    words[w] = word_of(__ldca(reinterpret_cast<const uint4*>(from) + w));
#else
    words[w] = *(reinterpret_cast<const Word*>(from) + w);
#endif
  }
  std::memcpy(values, words, sizeof values);
}

/// The same for what is not read again soon: it takes no room in the caches from what is.
template <typename T, unsigned kCount>
HORO_KERNEL void load_words_once(T (&values)[kCount], const T* from) {
#if defined(__CUDA_ARCH__)
  constexpr unsigned kWords = kCount * sizeof(T) / sizeof(Word);
  static_assert(kWords * sizeof(Word) == sizeof values);
  Word words[kWords];
  for (unsigned w = 0; w < kWords; ++w) {
    words[w] = word_of(__ldcs(reinterpret_cast<const uint4*>(from) + w));
  }
  std::memcpy(values, words, sizeof values);
#else
  load_words(values, from);
#endif
}

/// Writes them likewise.
template <typename T, unsigned kCount>
HORO_KERNEL void store_words(T* to, const T (&values)[kCount]) {
  constexpr unsigned kWords = kCount * sizeof(T) / sizeof(Word);
  static_assert(kWords * sizeof(Word) == sizeof values);
  Word words[kWords];
  std::memcpy(words, values, sizeof values);
  for (unsigned w = 0; w < kWords; ++w) {
#if defined(__CUDA_ARCH__)
    __stcg(reinterpret_cast<uint4*>(to) + w,
           make_uint4(words[w].bits[0], words[w].bits[1], words[w].bits[2], words[w].bits[3]));
#else
    *(reinterpret_cast<Word*>(to) + w) = words[w];
#endif
  }
}

}  // namespace horo::device

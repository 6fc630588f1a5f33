#pragma once

// Part of vector_kernels.cpp, which is compiled once per instruction set. All code here is in the
// namespace of that instruction set. It must not call an inline function that other files use. The
// linker keeps only one copy of such a function, and that copy may contain instructions that this
// machine does not have.

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace horo::collectives::HORO_KERNELS {

#if defined(__AVX512BW__)
inline constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t kVectorBytes = 32;
#else
inline constexpr std::size_t kVectorBytes = 16;
#endif

/// A SIMD vector of T that has `Bytes` bytes.
template <typename T, std::size_t Bytes = kVectorBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(Bytes)));
};
template <typename T, std::size_t Bytes = kVectorBytes>
using Vector = typename VectorOf<T, Bytes>::Type;

template <typename V>
inline V load_bytes(const std::byte* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

/// Returns the number of bytes from `address` to the next multiple of `alignment`, a power of two.
inline std::size_t bytes_to_aligned(const std::byte* address, std::size_t alignment) {
  return -reinterpret_cast<std::uintptr_t>(address) & (alignment - 1);
}

#if defined(__AVX512BW__)
/// Returns a mask of the first `count` bytes of a 64-byte vector, or of all bytes if `count` is
/// larger than 64.
inline __mmask64 mask_of_first(std::size_t count) {
  return count < 64 ? (std::uint64_t{1} << count) - 1 : ~std::uint64_t{0};
}
#endif

/// Copies a few bytes to the beginning of `to`, which must have room for whole 64-byte vectors.
/// With AVX-512, stores whole vectors, padded with zeros. A processor can forward such a store to a
/// later vector load, but cannot forward several smaller stores to one load.
inline void copy_few_in(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__AVX512BW__)
  for (std::size_t at = 0; at < bytes; at += 64)
    _mm512_storeu_si512(to + at, _mm512_maskz_loadu_epi8(mask_of_first(bytes - at), from + at));
#else
  __builtin_memcpy(to, from, bytes);
#endif
}

/// Copies a few bytes from the beginning of `from`, which must consist of whole 64-byte vectors.
/// Writes only the first `bytes` bytes of `to`.
inline void copy_few_out(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__AVX512BW__)
  for (std::size_t at = 0; at < bytes; at += 64)
    _mm512_mask_storeu_epi8(to + at, mask_of_first(bytes - at), _mm512_loadu_si512(from + at));
#else
  __builtin_memcpy(to, from, bytes);
#endif
}

/// Stores with a non-temporal instruction if the instruction set has one for sizeof(V). `to` must
/// be aligned to sizeof(V).
template <typename V>
inline void store_streaming(std::byte* to, V value) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64)
    return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)value);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32)
    return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)value);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16)
    return _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)value);
#endif
  __builtin_memcpy(to, &value, sizeof value);
}

/// PlainLanes, BFloat16Lanes and Float16Lanes convert elements to the vectors of the computation
/// and back. Packed is a vector of elements as they are in memory. Unpacked has the same elements
/// in kParts vectors of the type in which they are combined. unpack() may change the order of the
/// elements, and pack() restores it.
template <typename T, std::size_t Parts>
struct UnpackedLanes {
  Vector<T> part[Parts];
};

template <typename T>
struct PlainLanes {
  using Element = T;
  using Packed = Vector<T>;
  static constexpr std::size_t kParts = 1;
  using Unpacked = UnpackedLanes<T, kParts>;
  static Unpacked unpack(Packed value) { return {{value}}; }
  static Packed pack(const Unpacked& value) { return value.part[0]; }
};

using Words = Vector<std::uint32_t>;
using SignedWords = Vector<std::int32_t>;
using Floats = Vector<float>;

/// bfloat16, the upper half of a float32. Rounds to nearest, ties to even; NaN stays NaN. The first
/// part holds the elements with even index and the second part those with odd index, so each
/// element stays in its 32-bit lane. The conversion instructions of the processor (AVX512_BF16)
/// flush subnormals to zero, so this class does not use them.
struct BFloat16Lanes {
  using Element = std::uint16_t;
  using Packed = Words;  // two elements per word
  static constexpr std::size_t kParts = 2;
  using Unpacked = UnpackedLanes<float, kParts>;
  static Unpacked unpack(Packed bits) {
    return {{(Floats)(bits << 16), (Floats)(bits & 0xffff0000u)}};
  }
  static Packed pack(const Unpacked& value) {
    return rounded(value.part[0]) >> 16 | (rounded(value.part[1]) & 0xffff0000u);
  }
  /// Rounds each lane to bfloat16. The result is in the upper half of the lane.
  static Words rounded(Floats value) {
    const Words x = (Words)value;
    const Words finite = x + 0x7fffu + ((x >> 16) & 1u);
    return (SignedWords)(x & 0x7fffffffu) > 0x7f800000 ? x | 0x400000u : finite;
  }
};

/// IEEE binary16. Uses the conversion instructions of the processor. Packed is half as long as a
/// vector.
#if defined(__F16C__)
struct Float16Lanes {
  using Element = std::uint16_t;
  using Packed = Vector<std::uint16_t, kVectorBytes / 2>;
  static constexpr std::size_t kParts = 1;
  using Unpacked = UnpackedLanes<float, kParts>;
  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(__AVX512BW__)
  static Unpacked unpack(Packed bits) {
    return {{(Floats)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits)}};
  }
  static Packed pack(const Unpacked& value) {
    return (Packed)_mm512_maskz_cvtps_ph(0xffff, (__m512)value.part[0], kNearest);
  }
#else
  static Unpacked unpack(Packed bits) { return {{(Floats)_mm256_cvtph_ps((__m128i)bits)}}; }
  static Packed pack(const Unpacked& value) {
    return (Packed)_mm256_cvtps_ph((__m256)value.part[0], kNearest);
  }
#endif
};
#else
/// IEEE binary16 without conversion instructions. Uses the arithmetic of horo/base/float16.h
/// without branches, and gives the same bits.
struct Float16Lanes {
  using Element = std::uint16_t;
  using Packed = Words;  // two elements per word
  static constexpr std::size_t kParts = 2;
  using Unpacked = UnpackedLanes<float, kParts>;
  static Unpacked unpack(Packed bits) { return {{widen(bits & 0xffffu), widen(bits >> 16)}}; }
  static Packed pack(const Unpacked& value) {
    return narrow(value.part[0]) | narrow(value.part[1]) << 16;
  }
  /// widen() and narrow() convert between float32 and binary16. The binary16 value is in the lower
  /// half of each lane.
  static Floats widen(Words x) {
    const SignedWords magnitude = (SignedWords)(x & 0x7fffu);
    const Words subnormal = (Words)(__builtin_convertvector(magnitude, Floats) * 0x1p-24f);
    const Words normal = (Words)(magnitude << 13) + 0x38000000u;
    const Words special = 0x7f800000u | (Words)((magnitude & 0x3ff) << 13);
    const Words finite = magnitude < 0x400 ? subnormal : normal;
    return (Floats)((x & 0x8000u) << 16 | (magnitude >= 0x7c00 ? special : finite));
  }
  static Words narrow(Floats value) {
    const Words sign = (Words)value >> 16 & 0x8000u;
    const Words x = (Words)value & 0x7fffffffu;
    const SignedWords magnitude = (SignedWords)x;
    const Words small = (Words)((Floats)x + 0.5f) - 0x3f000000u;  // the addition rounds
    const Words normal = (x - 0x38000000u + 0xfffu + ((x >> 13) & 1u)) >> 13;
    const Words infinity = (x & 0u) + 0x7c00u;
    const Words nan = 0x7e00u | ((x >> 13) & 0x1ffu);
    Words bits = magnitude < 0x38800000 ? small : normal;
    bits = magnitude >= 0x477ff000 ? infinity : bits;
    return sign | (magnitude > 0x7f800000 ? nan : bits);
  }
};
#endif

}  // namespace horo::collectives::HORO_KERNELS

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "horo/base/float16.h"

namespace horo::fakes {

/// The types of values that the fakes of cuBLASLt and cuDNN compute with.
enum class Element { kFloat, kBFloat16, kFloat16 };

inline std::size_t size_of(Element type) { return type == Element::kFloat ? 4 : 2; }

/// The value number `index` of an array.
inline float load(const void* array, std::size_t index, Element type) {
  if (type == Element::kFloat) return static_cast<const float*>(array)[index];
  if (type == Element::kFloat16)
    return static_cast<float>(static_cast<const Float16*>(array)[index]);
  return static_cast<float>(static_cast<const BFloat16*>(array)[index]);
}

inline void store(void* array, std::size_t index, Element type, float value) {
  if (type == Element::kFloat)
    static_cast<float*>(array)[index] = value;
  else if (type == Element::kFloat16)
    static_cast<Float16*>(array)[index] = Float16(value);
  else
    static_cast<BFloat16*>(array)[index] = BFloat16(value);
}

/// Drops 13 bits of the value, as tensor cores do with float32 (TF32).
inline float as_tf32(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits &= ~std::uint32_t{0x1fff};
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace horo::fakes

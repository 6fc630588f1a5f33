#pragma once

#include <cstdint>
#include <span>

namespace horo::collectives {

/// Fills `values` with independent numbers that are uniform in [-1, 1): the same for the same seed,
/// on every machine. Splitmix64 (Steele, Lea, Flood 2014).
inline void fill_with_random(std::span<float> values, std::uint64_t seed) {
  for (float& value : values) {
    seed += 0x9e3779b97f4a7c15ull;
    std::uint64_t x = seed;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    value = static_cast<float>(static_cast<std::int32_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
  }
}

}  // namespace horo::collectives

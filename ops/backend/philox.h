#pragma once

#include <array>
#include <cstdint>

#include "horo/device/launch.h"

namespace horo::ops {

struct PhiloxWords {
  std::uint32_t word[4];
};

/// philox() for device kernels.
HORO_KERNEL inline PhiloxWords philox_rounds(std::uint64_t key, std::uint64_t counter_high,
                                             std::uint64_t counter_low) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kKeyStep0 = 0x9E3779B9u;  // golden ratio
  constexpr std::uint32_t kKeyStep1 = 0xBB67AE85u;  // sqrt(3) - 1
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxWords at{
      {static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
       static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * at.word[0];
    const std::uint64_t product1 = kMultiplier1 * at.word[2];
    at = {{static_cast<std::uint32_t>(product1 >> 32) ^ at.word[1] ^ key0,
           static_cast<std::uint32_t>(product1),
           static_cast<std::uint32_t>(product0 >> 32) ^ at.word[3] ^ key1,
           static_cast<std::uint32_t>(product0)}};
    key0 += kKeyStep0;
    key1 += kKeyStep1;
  }
  return at;
}

/// The counter-based generator Philox4x32-10: four independent uniform 32-bit numbers for every
/// pair of key and 128-bit counter, with no state in between. Thread-safe. Source: Salmon, Moraes,
/// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_high,
                                    std::uint64_t counter_low);

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
HORO_KERNEL inline std::uint64_t spread_bits(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

/// A 64-bit number that depends on every bit of both (for keys; not for untrusted input).
HORO_KERNEL inline std::uint64_t mix(std::uint64_t first, std::uint64_t second) {
  return spread_bits(spread_bits(first) ^ second);
}

}  // namespace horo::ops

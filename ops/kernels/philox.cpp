#include "ops/kernels/philox.h"

namespace horo::ops {
namespace {

// the finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit
std::uint64_t scramble(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_high,
                                    std::uint64_t counter_low) {
  const PhiloxWords words = philox_rounds(key, counter_high, counter_low);
  return std::to_array(words.word);
}

std::uint64_t mix(std::uint64_t first, std::uint64_t second) {
  return scramble(scramble(first) ^ second);
}

}  // namespace horo::ops

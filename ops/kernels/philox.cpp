#include "ops/kernels/philox.h"

namespace horo::ops {
namespace {

constexpr int kRounds = 10;
constexpr std::uint32_t kMultiplier0 = 0xD2511F53u;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kKeyStep0 = 0x9E3779B9u;  // golden ratio
constexpr std::uint32_t kKeyStep1 = 0xBB67AE85u;  // sqrt(3) - 1

std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

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
  std::uint32_t key0 = low_half(key);
  std::uint32_t key1 = high_half(key);
  std::array<std::uint32_t, 4> word{low_half(counter_low), high_half(counter_low),
                                    low_half(counter_high), high_half(counter_high)};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * word[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * word[2];
    word = {high_half(product1) ^ word[1] ^ key0, low_half(product1),
            high_half(product0) ^ word[3] ^ key1, low_half(product0)};
    key0 += kKeyStep0;
    key1 += kKeyStep1;
  }
  return word;
}

std::uint64_t mix(std::uint64_t first, std::uint64_t second) {
  return scramble(scramble(first) ^ second);
}

}  // namespace horo::ops

#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace horo::ops {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words whose output
/// bits each depend on all input bits.
constexpr std::uint64_t scramble(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
  return word ^ (word >> 31);
}

/// Combines two keys into one that depends on both and on their order.
constexpr std::uint64_t combine_keys(std::uint64_t first, std::uint64_t second) {
  return scramble(scramble(first + 0x9e3779b97f4a7c15ull) ^ (second * 0xd1342543de82ef95ull + 1));
}

/// Pseudo-random numbers that depend only on a key (SplitMix64). Each sample or decision constructs
/// its own stream, so that results do not depend on the order of work. Used from one thread.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t key) : state_(key) {}

  std::uint64_t next() { return scramble(state_ += 0x9e3779b97f4a7c15ull); }
  /// In [0, 1), a multiple of 2^-24.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }
  /// In [low, high).
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// In 0 ... bound - 1; `bound` is far below 2^64, so that the bias does not matter.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// Zero mean, unit variance (Box and Muller).
  float normal() {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - uniform()));
    return radius * std::cos(2.0f * std::numbers::pi_v<float> * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace horo::ops

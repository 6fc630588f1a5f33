#pragma once

#include <array>
#include <cstdint>

namespace horo::ops {

/// A pseudo-random permutation of 0 ... size - 1 that is determined by (seed, epoch) and computed
/// without a table: any position is looked up in constant expected time and no memory, on any rank,
/// in any order. Not changed after construction.
///
/// A balanced Feistel network permutes the numbers of 2h bits, the smallest such power of two that
/// is not below `size`; results past `size` are permuted again until one is below it (cycle
/// walking: Black and Rogaway, "Ciphers with arbitrary finite domains", 2002), fewer than four
/// times on average.
class EpochPermutation {
 public:
  /// `size` may be 0, then nothing can be looked up.
  EpochPermutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

  std::uint64_t size() const { return size_; }
  /// The sample at `position`. Throws InvalidArgument unless position < size().
  std::uint64_t operator[](std::uint64_t position) const;

 private:
  static constexpr int kRounds = 6;

  std::uint64_t permute_bits(std::uint64_t word) const;

  std::uint64_t size_;
  int half_bits_ = 1;
  std::array<std::uint64_t, kRounds> round_keys_{};
};

}  // namespace horo::ops

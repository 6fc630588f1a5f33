#include "ops/data/epoch_permutation.h"

#include <fmt/core.h>

#include <bit>

#include "horo/base/error.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

EpochPermutation::EpochPermutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size) {
  HORO_CHECK(size <= std::uint64_t{1} << 62, fmt::format("a permutation of {} is too large", size));
  const int bits = size > 1 ? std::bit_width(size - 1) : 1;
  half_bits_ = (bits + 1) / 2;
  RandomStream keys(combine_keys(seed, epoch));
  for (auto& key : round_keys_) key = keys.next();
}

std::uint64_t EpochPermutation::permute_bits(std::uint64_t word) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = word >> half_bits_;
  std::uint64_t right = word & mask;
  for (const auto key : round_keys_) {
    const std::uint64_t mixed = left ^ (scramble(right + key) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::uint64_t EpochPermutation::operator[](std::uint64_t position) const {
  HORO_CHECK(position < size_, fmt::format("position {} of a permutation of {}", position, size_));
  std::uint64_t word = permute_bits(position);
  while (word >= size_) word = permute_bits(word);
  return word;
}

}  // namespace horo::ops

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "tests/collectives/contract/exact_values.h"
#include "tests/collectives/contract/pieced_array.h"

namespace horo::collectives::contract {

template <Element T>
void check_broadcast(Collectives& collectives, int rank, std::size_t count, int root, Cut cut,
                     std::size_t round = 0) {
  PiecedArray<T> array(count, cut);
  for (std::size_t i = 0; i < count; ++i)
    array.set(i, contribution<T>(rank, i, ReduceOp::kSum, round));
  collectives.broadcast(array.buffer(), root);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_TRUE(same_bits(array.get(i), contribution<T>(root, i, ReduceOp::kSum, round)))
        << "broadcast from " << root << " rank " << rank << " element " << i << " of " << count;
  ASSERT_TRUE(array.guards_are_intact());
}

inline void check_allgather(Collectives& collectives, int rank,
                            const std::vector<std::size_t>& bytes_of, bool is_in_place) {
  const auto value = [](std::size_t r, std::size_t i) {
    return static_cast<std::uint8_t>(r * 83 + i * 7 + i / 251 + 1);
  };
  const std::size_t total = std::accumulate(bytes_of.begin(), bytes_of.end(), std::size_t{0});
  const auto own = static_cast<std::size_t>(rank);
  const auto begin = std::accumulate(bytes_of.begin(), bytes_of.begin() + rank, std::size_t{0});
  std::vector<std::uint8_t> input(bytes_of[own]), output(total);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = value(own, i);
  std::span<const std::byte> source = std::as_bytes(std::span(input));
  if (is_in_place) {
    std::copy(input.begin(), input.end(), output.begin() + static_cast<std::ptrdiff_t>(begin));
    source = std::as_bytes(std::span(output)).subspan(begin, input.size());
  }
  collectives.allgather(source, bytes_of, std::as_writable_bytes(std::span(output)));
  std::size_t at = 0;
  for (std::size_t r = 0; r < bytes_of.size(); ++r)
    for (std::size_t i = 0; i < bytes_of[r]; ++i, ++at)
      ASSERT_EQ(output[at], value(r, i))
          << "allgather on rank " << rank << ", byte " << i << " of " << r;
}

/// The number of bytes that rank r sends to rank s.
using PairBytes = std::function<std::size_t(std::size_t r, std::size_t s)>;

/// A different size for every pair, and zero for every fourth pair.
inline PairBytes uneven_pairs(std::size_t base) {
  return [=](std::size_t r, std::size_t s) {
    return (r * 3 + s * 5) % 4 == 1 ? 0 : base + (r * 13 + s * 7) % 11;
  };
}

inline void check_alltoall(Collectives& collectives, int rank, int size,
                           const PairBytes& pair_bytes, std::size_t round = 0) {
  const auto value = [&](std::size_t r, std::size_t s, std::size_t i) {
    return static_cast<std::uint8_t>(r * 83 + s * 29 + i * 7 + i / 251 + round + 1);
  };
  const auto own = static_cast<std::size_t>(rank);
  std::vector<std::size_t> bytes_to, bytes_from;
  std::vector<std::uint8_t> input, expected;
  for (std::size_t peer = 0; peer < static_cast<std::size_t>(size); ++peer) {
    bytes_to.push_back(pair_bytes(own, peer));
    bytes_from.push_back(pair_bytes(peer, own));
    for (std::size_t i = 0; i < bytes_to.back(); ++i) input.push_back(value(own, peer, i));
    for (std::size_t i = 0; i < bytes_from.back(); ++i) expected.push_back(value(peer, own, i));
  }
  constexpr std::size_t kGuarded = 64;
  const std::vector<std::uint8_t> before = input;
  std::vector<std::uint8_t> output(expected.size() + 2 * kGuarded, 0xa5);
  collectives.alltoall(std::as_bytes(std::span(input)), bytes_to,
                       std::as_writable_bytes(std::span(output)).subspan(kGuarded, expected.size()),
                       bytes_from);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(output[kGuarded + i], expected[i])
        << "alltoall on rank " << rank << ", byte " << i << " of " << expected.size();
  for (std::size_t i = 0; i < kGuarded; ++i)
    ASSERT_TRUE(output[i] == 0xa5 && output[output.size() - 1 - i] == 0xa5)
        << "alltoall wrote beyond its output";
  ASSERT_EQ(input, before) << "alltoall changed its input";
}

}  // namespace horo::collectives::contract

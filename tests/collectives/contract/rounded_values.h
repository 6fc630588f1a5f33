#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "collectives/chunks.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "tests/collectives/contract/collectives_contract.h"

namespace horo::collectives::contract {

/// A value of varying magnitude and sign that differs by rank and index, so sums and products are
/// rounded.
template <Element T>
T rounding_value(int rank, std::size_t index) {
  std::uint64_t x = (static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u +
                    (index + 1) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
  x ^= x >> 29;
  const double mantissa = static_cast<double>(static_cast<std::int32_t>(x >> 32)) + 0.5;
  const double value = std::ldexp(mantissa, static_cast<int>(x % 12) - 34);  // below 2^8
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<T>(static_cast<float>(value));
}

/// Combines the values of some ranks in the documented way: 16-bit floats are added (or multiplied)
/// in float32 and rounded once, or after each step with `rounds_at_each_hop`.
template <Element T>
T combined_in_order(const std::vector<int>& ranks, std::size_t index, ReduceOp op,
                    bool rounds_at_each_hop) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Wide result = static_cast<Wide>(rounding_value<T>(ranks.front(), index));
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (rounds_at_each_hop && i > 1) result = static_cast<Wide>(static_cast<T>(result));
    const Wide value = static_cast<Wide>(rounding_value<T>(ranks[i], index));
    result = op == ReduceOp::kProduct ? result * value : result + value;
  }
  if (op == ReduceOp::kAverage) result *= Wide(1) / static_cast<Wide>(ranks.size());
  return static_cast<T>(result);
}

/// The expected value at `index` of an allreduce of `count` elements, or of a reduce_scatter to
/// parts of chunk_of(). `order` is not kOwn.
template <Element T>
T rounded_result(int size, std::size_t count, std::size_t index, ReduceOp op, Order order) {
  std::vector<int> ranks;
  int first = 0;
  if (order == Order::kRing)
    for (int owner = 0; owner < size; ++owner)
      if (index <
          chunk_of(count, static_cast<std::size_t>(size), static_cast<std::size_t>(owner)).end) {
        first = owner + 1;
        break;
      }
  for (int i = 0; i < size; ++i) ranks.push_back((first + i) % size);
  return combined_in_order<T>(ranks, index, op, order == Order::kRing);
}

}  // namespace horo::collectives::contract

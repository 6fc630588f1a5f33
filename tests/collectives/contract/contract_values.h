#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives::contract {

/// The contribution of `rank` at `index`. It differs by rank and by index, and is a small integer,
/// so floats of any size combine without rounding. `round` makes consecutive runs differ.
template <Element T>
T contribution(int rank, std::size_t index, ReduceOp op, std::size_t round = 0) {
  const auto r = static_cast<std::size_t>(rank);
  if constexpr (std::is_integral_v<T>) {
    const auto value = static_cast<std::int64_t>((r * 37 + index * 11 + round * 5) % 101);
    return static_cast<T>(std::is_signed_v<T> ? value - 50 : value);
  } else {
    // Partial products are powers of two, and partial sums of 9 ranks are below 2^7.
    if (op == ReduceOp::kProduct)
      return static_cast<T>((r + index + round) % 3 == 0 ? -2.0f : 1.0f);
    return static_cast<T>(static_cast<float>((r * 7 + index * 3 + round) % 29) - 14.0f);
  }
}

/// The serial reduction of the contributions of all ranks. It is exact, so any order gives the same
/// bits.
template <Element T>
T expected_value(int size, std::size_t index, ReduceOp op, std::size_t round = 0) {
  constexpr bool kIsInteger = std::is_integral_v<T>;
  using Wide =
      std::conditional_t<kIsInteger, std::uint64_t, double>;  // wraps like the integers under test
  using Compared = std::conditional_t<kIsInteger, std::int64_t, double>;
  using Scaled = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto wide = [&](int rank) {
    const T value = contribution<T>(rank, index, op, round);
    if constexpr (kIsInteger)
      return static_cast<Wide>(value);
    else
      return static_cast<Wide>(static_cast<Scaled>(value));
  };
  Wide result = wide(0);
  for (int r = 1; r < size; ++r) {
    const Wide value = wide(r);
    if (op == ReduceOp::kProduct)
      result *= value;
    else if (op == ReduceOp::kMin)
      result = Compared(value) < Compared(result) ? value : result;
    else if (op == ReduceOp::kMax)
      result = Compared(value) > Compared(result) ? value : result;
    else
      result += value;
  }
  if constexpr (kIsInteger) {
    const T wrapped = static_cast<T>(result);
    return op == ReduceOp::kAverage ? static_cast<T>(wrapped / static_cast<std::int64_t>(size))
                                    : wrapped;
  } else {
    const auto scaled = static_cast<Scaled>(result);
    return static_cast<T>(
        op == ReduceOp::kAverage ? scaled * (Scaled(1) / static_cast<Scaled>(size)) : scaled);
  }
}

}  // namespace horo::collectives::contract

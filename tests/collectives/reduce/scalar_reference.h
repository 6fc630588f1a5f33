#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// The contract of reduce(), one element at a time.
template <Element T>
T scalar_reduce(ReduceOp op, const std::vector<T>& values, std::size_t divisor) {
  constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    T result = values[0];
    for (std::size_t s = 1; s < values.size(); ++s) {
      const T x = values[s];
      if (op == ReduceOp::kMin)
        result = x < result ? x : result;
      else if (op == ReduceOp::kMax)
        result = x > result ? x : result;
      else if (op == ReduceOp::kProduct)
        result =
            static_cast<T>(static_cast<Wrapping>(std::uint64_t(Wrapping(result)) * Wrapping(x)));
      else
        result =
            static_cast<T>(static_cast<Wrapping>(std::uint64_t(Wrapping(result)) + Wrapping(x)));
    }
    if (op == ReduceOp::kAverage)
      result =
          static_cast<T>(static_cast<std::int64_t>(result) / static_cast<std::int64_t>(divisor));
    return result;
  } else {
    using Accumulator = std::conditional_t<kIsHalf, float, T>;
    auto result = static_cast<Accumulator>(values[0]);
    for (std::size_t s = 1; s < values.size(); ++s) {
      const auto x = static_cast<Accumulator>(values[s]);
      if (op == ReduceOp::kMin)
        result = x < result ? x : result;
      else if (op == ReduceOp::kMax)
        result = x > result ? x : result;
      else if (op == ReduceOp::kProduct)
        result *= x;
      else
        result += x;
    }
    if (op == ReduceOp::kAverage) result *= Accumulator(1) / static_cast<Accumulator>(divisor);
    return static_cast<T>(result);
  }
}

}  // namespace horo::collectives

#pragma once

#include <cstdint>
#include <string_view>

namespace horo {

/// How the contributions of the ranks become one value.
/// Floating point: kAverage is the sum, scaled once by 1/size. Integers: sums and products wrap as
/// the type does (as MPI_SUM does); kAverage divides the wrapped sum by size, rounding toward zero.
/// kMin and kMax: if any rank contributes NaN, the result is unspecified but the same on every
/// rank.
enum class ReduceOp : std::uint8_t { kAverage, kSum, kMin, kMax, kProduct };
inline constexpr int kReduceOpCount = 5;

constexpr std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

}  // namespace horo

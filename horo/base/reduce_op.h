#pragma once

#include <cstdint>
#include <string_view>

namespace horo {

/// How the contributions of the ranks become one value.
/// Floating point: kAverage is the sum, scaled once by 1/size. Integers: sums and products wrap as
/// the type does (as MPI_SUM does); kAverage divides the wrapped sum by size, rounding toward zero.
/// kMin and kMax: if any rank contributes NaN, the result is unspecified but the same on every
/// rank.
/// kAdasum: floating point, allreduce only. Each tensor's gradients are combined in pairs, as
/// Adasum(a, b) = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b: orthogonal ones add up, equal ones
/// average, and a zero one leaves the other as it is. (Source: Maleki et al., "Scaling distributed
/// training with adaptive summation", 2020.) Ranks 0 and 1 are paired, 2 and 3, and so on, then the
/// results, until one is left; one without a partner moves up. Products are summed in float64. The
/// bits depend on the values alone: not on timing, algorithm, fusion or buckets.
enum class ReduceOp : std::uint8_t { kAverage, kSum, kMin, kMax, kProduct, kAdasum };
inline constexpr int kReduceOpCount = 6;
/// The operations before kAdasum combine each element by itself.
inline constexpr int kElementwiseOpCount = 5;
constexpr bool is_elementwise(ReduceOp op) { return op != ReduceOp::kAdasum; }

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
    case ReduceOp::kAdasum:
      return "adasum";
  }
  return "unknown";
}

}  // namespace horo

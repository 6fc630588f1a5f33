#pragma once

#include <cstdint>
#include <string_view>

namespace horo {

/// How the values of the ranks are combined.
///
/// kAverage is the sum divided by the number of ranks that contribute. For floating point types, it
/// multiplies by the reciprocal of that number: the sum or, in some exchanges in 16 bits, each
/// contribution. For integers, sums and products wrap around, and kAverage rounds the quotient
/// toward zero. kMin and kMax: if a rank contributes NaN, the result is unspecified, but equal on
/// all ranks.
///
/// kAdasum: for floating point and allreduce only. Combines the values a and b of two ranks, a
/// tensor at a time, as Adasum(a, b) = (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b. Orthogonal
/// vectors are added, equal vectors are averaged, and a zero vector leaves the other vector
/// unchanged. Ranks 0 and 1 form a pair, ranks 2 and 3 form a pair, and so on. The results are
/// paired in the same way until one result remains. A result without a partner stays unchanged for
/// the next pairing. Dot products are summed in float64. The bits depend only on the values of the
/// ranks, not on timing, algorithm, fusion or buckets. Source: Maleki et al., "Scaling distributed
/// training with adaptive summation", 2020.
enum class ReduceOp : std::uint8_t { kAverage, kSum, kMin, kMax, kProduct, kAdasum };
inline constexpr int kReduceOpCount = 6;  ///< the number of operations
/// The number of operations before kAdasum, which combine each element separately.
inline constexpr int kElementwiseOpCount = 5;
/// Whether the operation combines each element separately.
constexpr bool is_elementwise(ReduceOp op) { return op != ReduceOp::kAdasum; }

/// Returns "average", "sum", and so on.
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

#pragma once

// Part of reduction_kernels.cpp; see lanes.h for the rule that its code follows.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/reduce/lanes.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives::HORO_KERNELS {

/// `a Op b` in each lane of vectors of T. Integers wrap.
template <ReduceOp Op, typename T>
inline Vector<T> combine(Vector<T> a, Vector<T> b) {
  if constexpr (Op == ReduceOp::kMin) {
    return b < a ? b : a;  // of equals (-0 and 0) the earlier
  } else if constexpr (Op == ReduceOp::kMax) {
    return b > a ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    using Wrapping = Vector<std::make_unsigned_t<T>>;
    if constexpr (Op == ReduceOp::kProduct) return (Vector<T>)((Wrapping)a * (Wrapping)b);
    return (Vector<T>)((Wrapping)a + (Wrapping)b);
  } else {
    if constexpr (Op == ReduceOp::kProduct) return a * b;
    return a + b;
  }
}

/// The last step of kAverage: a float times T(1)/divisor, an integer divided toward zero.
template <typename T>
class Divider {
 public:
  explicit Divider(std::size_t divisor)
      : divisor_(static_cast<std::int64_t>(divisor)),
        factor_(Factor(1) / static_cast<Factor>(divisor)) {}

  Vector<T> operator()(Vector<T> value) const {
    if constexpr (std::is_integral_v<T>) {
      T lanes[sizeof value / sizeof(T)];
      __builtin_memcpy(lanes, &value, sizeof value);
      for (T& lane : lanes) lane = static_cast<T>(lane / divisor_);
      __builtin_memcpy(&value, lanes, sizeof value);
      return value;
    } else {
      return value * factor_;
    }
  }

 private:
  using Factor = std::conditional_t<std::is_integral_v<T>, double, T>;
  std::int64_t divisor_;
  Factor factor_;
};

}  // namespace horo::collectives::HORO_KERNELS

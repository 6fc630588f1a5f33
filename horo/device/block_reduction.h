#pragma once

#include "horo/device/launch.h"

namespace horo::device {

struct Sum {
  template <typename T>
  HORO_KERNEL static T combine(T a, T b) {
    return a + b;
  }
};

/// The larger of two values; NaN if one of them is NaN.
struct Largest {
  template <typename T>
  HORO_KERNEL static T combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

/// Combines one value of each of the kThreads threads of a block (a power of two) with
/// Operation::combine, over three phases. An object must be a member of the Shared struct of a
/// BlockKernel. After result(), a thread may call give() again in the same phase. Operands are
/// combined in a tree that depends only on kThreads, so results have the same bits in every run,
/// also on the host. Cost: two barriers and about 2 sqrt(kThreads) combinations per thread.
template <typename T, unsigned kThreads, typename Operation = Sum>
class BlockReduction {
  static_assert(kThreads > 0 && (kThreads & (kThreads - 1)) == 0, "threads: a power of two");

 public:
  /// First phase: stores the value of this thread.
  HORO_KERNEL void give(unsigned thread, T value) { value_[thread] = value; }
  /// Second phase: some threads combine the values.
  HORO_KERNEL void combine(unsigned thread) {
    if (thread < kGroups) group_[thread] = fold<kThreads / kGroups>(value_ + thread, kGroups);
  }
  /// Third phase: returns the result to every thread.
  HORO_KERNEL T result() const { return fold<kGroups>(group_, 1); }

 private:
  static constexpr unsigned groups() {
    unsigned groups = 1;
    while (groups * groups < kThreads) groups *= 2;
    return groups;
  }
  static constexpr unsigned kGroups = groups();

  template <unsigned kCount>
  HORO_KERNEL static T fold(const T* values, unsigned stride) {
    if constexpr (kCount == 1)
      return *values;
    else
      return Operation::combine(fold<kCount / 2>(values, stride),
                                fold<kCount / 2>(values + kCount / 2 * stride, stride));
  }

  T value_[kThreads];
  T group_[kGroups];
};

}  // namespace horo::device

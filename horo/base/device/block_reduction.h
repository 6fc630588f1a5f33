#pragma once

#include "horo/base/device/launch.h"

namespace horo::device {

struct Sum {
  template <typename T>
  HORO_KERNEL static T combine(T a, T b) {
    return a + b;
  }
};

/// The larger of two values; NaN if either is.
struct Largest {
  template <typename T>
  HORO_KERNEL static T combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

/// Combines a value of each of a block's kThreads threads (a power of two), over three phases, by
/// Operation::combine. A part of a BlockKernel's Shared; after result(), in the same phase, it may
/// be given another value. Operands meet in a tree that depends on kThreads alone: the same bits
/// every run, on the host too. Cost: two barriers, about 2 sqrt(kThreads) combinations per thread.
template <typename T, unsigned kThreads, typename Operation = Sum>
class BlockReduction {
  static_assert(kThreads > 0 && (kThreads & (kThreads - 1)) == 0, "threads: a power of two");

 public:
  /// In a phase: what this thread has.
  HORO_KERNEL void give(unsigned thread, T value) { value_[thread] = value; }
  /// In the next: some threads combine what all gave.
  HORO_KERNEL void combine(unsigned thread) {
    if (thread < kGroups) group_[thread] = fold<kThreads / kGroups>(value_ + thread, kGroups);
  }
  /// In the one after that: the same to every thread.
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

#pragma once

#include <cstddef>

/// VmRSS of this process, in KiB.
std::size_t resident_kib();

/// The most that was resident in each half of a run.
class ResidentMemory {
 public:
  /// Notes what is resident now, `done` of `total` operations being behind.
  void sample(std::size_t done, std::size_t total);

  std::size_t first_half_kib() const { return first_half_; }
  std::size_t second_half_kib() const { return second_half_; }
  /// By how much the second half's exceeds the first half's.
  std::size_t growth_kib() const {
    return second_half_ > first_half_ ? second_half_ - first_half_ : 0;
  }

 private:
  std::size_t first_half_ = 0;
  std::size_t second_half_ = 0;
};

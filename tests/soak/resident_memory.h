#pragma once

#include <cstddef>

/// Resident memory (VmRSS) of this process, in KiB.
std::size_t resident_kib();

/// Tracks the peak of the resident memory in each half of a run.
class ResidentMemory {
 public:
  /// Records the resident memory after `done` of `total` operations.
  void sample(std::size_t done, std::size_t total);

  std::size_t first_half_kib() const { return first_half_; }
  std::size_t second_half_kib() const { return second_half_; }
  /// How much the peak of the second half exceeds the peak of the first half, in KiB; 0 if it does
  /// not.
  std::size_t growth_kib() const {
    return second_half_ > first_half_ ? second_half_ - first_half_ : 0;
  }

 private:
  std::size_t first_half_ = 0;
  std::size_t second_half_ = 0;
};

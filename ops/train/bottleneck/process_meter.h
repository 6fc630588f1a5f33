#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

/// Measures what the operating system knows of this process, from construction on. A thread wakes
/// up every kTick; if it wakes up much later, no thread of the process could run. Linux only: where
/// /proc lacks a figure, it is 0.
class ProcessMeter {
 public:
  static constexpr std::chrono::milliseconds kTick{10};
  /// Wakes up at most this late on a machine that is busy.
  static constexpr std::chrono::milliseconds kTolerance{25};

  /// Call it on the training thread, whose waiting time is measured.
  ProcessMeter();

  ProcessCosts costs() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Reading {
    Clock::time_point time;
    double cpu_seconds = 0;
    double waiting_seconds = 0;
    double idle_seconds = 0;  // of all cores of the machine
    std::uint64_t major_faults = 0, involuntary_switches = 0;
  };

  Reading read() const;
  void count_pauses(const std::stop_token& stop);

  const int thread_id_;
  const Reading begin_;
  std::atomic<std::int64_t> suspended_ns_ = 0;
  std::jthread ticker_;
};

/// The cores that this process may use: those of its affinity, limited by the quota of its control
/// groups.
double usable_cores();

/// Bytes per second, read and written, of copies of a block that exceeds the caches. Takes about
/// 20 ms.
double measure_memory_bandwidth();

}  // namespace horo::ops

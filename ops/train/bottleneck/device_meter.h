#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

struct DeviceMeterOptions {
  /// Between samples. The driver renews its values every 1/6 s to 1 s.
  std::chrono::milliseconds interval{200};
  /// Samples of this time after the begin are left out, because they count time before the begin.
  std::chrono::milliseconds settling{1000};
};

/// Samples what the driver of a GPU knows of its use, from construction on, on a thread of its own.
/// Without NVML, or after an error of NVML, one debug line says why there are no samples.
class DeviceMeter {
 public:
  /// `pci_address`: as device::gpu_address() returns it; empty: no GPU, and no samples.
  explicit DeviceMeter(const std::string& pci_address, const DeviceMeterOptions& options = {});

  /// Over the samples so far; nothing without samples. Thread-safe.
  std::optional<DeviceCosts> costs() const;

 private:
  void sample(const std::stop_token& stop, const std::string& pci_address,
              const DeviceMeterOptions& options);

  mutable std::mutex mutex_;  // guards the two sums
  DeviceCosts sum_;
  std::size_t samples_ = 0;
  std::jthread sampler_;
};

}  // namespace horo::ops

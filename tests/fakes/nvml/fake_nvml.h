#pragma once

#include <atomic>

#include "horo/device/cuda/nvml_functions.h"

namespace horo::fakes {

/// What the fake NVML of this process reports of every device.
struct FakeNvml {
  unsigned busy_percent = 75;
  unsigned long long memory_used = 3ull << 30, memory_total = 16ull << 30;
  unsigned long long throttle_reasons = 0;
  /// Results of the functions in place of success.
  device::nvml::Return init = 0, handle = 0, utilization = 0, memory = 0, reasons = 0;
  int balance = 0;  ///< calls of nvmlInit without those of nvmlShutdown
};
/// Not synchronised: use it while no other thread calls NVML.
FakeNvml& fake_nvml();
/// Readings of the utilisation by all threads.
std::atomic<int>& fake_nvml_reads();

}  // namespace horo::fakes

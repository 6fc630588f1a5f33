#pragma once

#include <cstdint>
#include <string>

#include "horo/device/cuda/nvml_functions.h"

namespace horo::device {

/// What the driver of a GPU knows of its use, by all processes.
struct DeviceUsage {
  double busy =
      0;  ///< share of the latest sample period (at most 1 s) in which a kernel was running
  std::uint64_t memory_used = 0, memory_total = 0;  ///< bytes; 0: unknown
  bool is_hot = false;            ///< the clock is lowered because of the temperature
  bool is_power_limited = false;  ///< the clock is lowered because of the power
};

/// A GPU as NVML, the monitoring library of NVIDIA's driver, sees it. NVML is loaded on first use
/// and need not be installed. Thread-safe.
class NvmlDevice {
 public:
  /// `pci_address`: as gpu_addresses() returns it. Throws DeviceError with one line of text if NVML
  /// is not installed or does not know the device.
  explicit NvmlDevice(const std::string& pci_address);
  ~NvmlDevice();
  NvmlDevice(const NvmlDevice&) = delete;
  NvmlDevice& operator=(const NvmlDevice&) = delete;

  /// Takes microseconds, on some drivers milliseconds. Throws DeviceError if NVML cannot measure
  /// DeviceUsage::busy, as for a part of a divided GPU (MIG). The other values stay 0 or false if
  /// NVML lacks them.
  DeviceUsage read() const;

 private:
  const nvml::Functions& functions_;
  nvml::Device device_ = nullptr;
};

}  // namespace horo::device

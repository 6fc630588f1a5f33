#pragma once

/// The functions of NVML that horo calls, and their types. The header of NVML is a separate package
/// that a build of CUDA may lack, and its binary interface is stable. Names without the prefix
/// "nvml" are those of the header. Source: NVIDIA, "NVML API reference guide".
namespace horo::device::nvml {

/// Codes of errors are positive.
using Return = int;
inline constexpr Return kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6;

using Device = struct DeviceRecord*;

/// Percentages of the latest sample period of the driver, 1/6 s to 1 s.
struct Utilization {
  unsigned gpu;     ///< in which a kernel was running
  unsigned memory;  ///< in which the memory was read or written
};

/// In bytes, of all processes.
struct Memory {
  unsigned long long total, free, used;
};

/// Bits of the reasons why the clock of a device is lower than it could be.
enum ThrottleReason : unsigned long long {
  kPowerCap = 0x4,
  kThermalBySoftware = 0x20,
  kThermalByHardware = 0x40,
  kPowerBrake = 0x80,
};

struct Functions {
  Return (*init)();                                           ///< nvmlInit_v2
  Return (*shutdown)();                                       ///< nvmlShutdown
  const char* (*error_string)(Return);                        ///< nvmlErrorString
  Return (*handle_by_pci_bus_id)(const char*, Device*);       ///< nvmlDeviceGetHandleByPciBusId_v2
  Return (*utilization_rates)(Device, Utilization*);          ///< nvmlDeviceGetUtilizationRates
  Return (*memory_info)(Device, Memory*);                     ///< nvmlDeviceGetMemoryInfo
  Return (*throttle_reasons)(Device, unsigned long long*){};  ///< null in old drivers
};

}  // namespace horo::device::nvml

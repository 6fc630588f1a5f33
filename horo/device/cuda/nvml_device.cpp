#include "horo/device/cuda/nvml_device.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/device/loaded_library.h"

namespace horo::device {
namespace {

constexpr const char* kFile = "libnvidia-ml.so.1";  // a part of the driver

nvml::Functions load() {
  const LoadedLibrary library("NVML", kFile, kFile);
  nvml::Functions functions{};
  library.find("nvmlInit_v2", functions.init);
  library.find("nvmlShutdown", functions.shutdown);
  library.find("nvmlErrorString", functions.error_string);
  library.find("nvmlDeviceGetHandleByPciBusId_v2", functions.handle_by_pci_bus_id);
  library.find("nvmlDeviceGetUtilizationRates", functions.utilization_rates);
  library.find("nvmlDeviceGetMemoryInfo", functions.memory_info);
  library.find_optional("nvmlDeviceGetCurrentClocksThrottleReasons", functions.throttle_reasons);
  return functions;
}

// A failed attempt is repeated by the next caller.
const nvml::Functions& functions() {
  static const nvml::Functions loaded = load();
  return loaded;
}

void check(const nvml::Functions& functions, nvml::Return result, const std::string& what) {
  if (result != nvml::kSuccess)
    throw DeviceError(
        fmt::format("NVML: {} failed: {} ({})", what, functions.error_string(result), result));
}

}  // namespace

// NVML counts the calls of its init function.
NvmlDevice::NvmlDevice(const std::string& pci_address) : functions_(functions()) {
  check(functions_, functions_.init(), "nvmlInit");
  const nvml::Return found = functions_.handle_by_pci_bus_id(pci_address.c_str(), &device_);
  if (found == nvml::kSuccess) return;
  functions_.shutdown();
  check(functions_, found, fmt::format("the search for device {}", pci_address));
}

NvmlDevice::~NvmlDevice() { functions_.shutdown(); }

DeviceUsage NvmlDevice::read() const {
  nvml::Utilization utilization{};
  check(functions_, functions_.utilization_rates(device_, &utilization),
        "nvmlDeviceGetUtilizationRates");
  DeviceUsage usage{.busy = utilization.gpu / 100.0};
  nvml::Memory memory{};
  if (functions_.memory_info(device_, &memory) == nvml::kSuccess) {
    usage.memory_used = memory.used;
    usage.memory_total = memory.total;
  }
  unsigned long long reasons = 0;
  if (functions_.throttle_reasons != nullptr &&
      functions_.throttle_reasons(device_, &reasons) == nvml::kSuccess) {
    usage.is_hot = (reasons & (nvml::kThermalBySoftware | nvml::kThermalByHardware)) != 0;
    usage.is_power_limited = (reasons & (nvml::kPowerCap | nvml::kPowerBrake)) != 0;
  }
  return usage;
}

}  // namespace horo::device

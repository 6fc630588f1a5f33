// The functions of NVML that horo calls.
#include <cstring>

#include "tests/fakes/nvml/fake_nvml.h"

namespace horo::fakes {

FakeNvml& fake_nvml() {
  static FakeNvml fake;
  return fake;
}

std::atomic<int>& fake_nvml_reads() {
  static std::atomic<int> reads = 0;
  return reads;
}

namespace {

int known_device = 0;  // NOLINT

bool is_known(device::nvml::Device device) {
  return reinterpret_cast<void*>(device) == &known_device && fake_nvml().balance > 0;
}

}  // namespace
}  // namespace horo::fakes

using namespace horo::fakes;         // NOLINT
using namespace horo::device::nvml;  // NOLINT

extern "C" {

Return nvmlInit_v2() {
  if (fake_nvml().init == kSuccess) ++fake_nvml().balance;
  return fake_nvml().init;
}

Return nvmlShutdown() {
  --fake_nvml().balance;
  return kSuccess;
}

const char* nvmlErrorString(Return result) {
  return result == kNotSupported ? "Not Supported" : "another error of the fake";
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char* address, Device* device) {
  if (fake_nvml().balance <= 0) return kInvalidArgument;
  if (std::strlen(address) != std::strlen("0000:00:00.0")) return kNotFound;
  *device = reinterpret_cast<Device>(&known_device);
  return fake_nvml().handle;
}

Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  if (!is_known(device)) return kInvalidArgument;
  ++fake_nvml_reads();
  *utilization = {fake_nvml().busy_percent, 0};
  return fake_nvml().utilization;
}

Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  if (!is_known(device)) return kInvalidArgument;
  *memory = {fake_nvml().memory_total, fake_nvml().memory_total - fake_nvml().memory_used,
             fake_nvml().memory_used};
  return fake_nvml().memory;
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  if (!is_known(device)) return kInvalidArgument;
  *reasons = fake_nvml().throttle_reasons;
  return fake_nvml().reasons;
}

}  // extern "C"

#include "ops/train/bottleneck/device_meter.h"

#include <algorithm>
#include <condition_variable>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/device/cuda/nvml_device.h"

namespace horo::ops {
namespace {

// Returns false if a stop was requested.
bool wait_for(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

DeviceMeter::DeviceMeter(const std::string& pci_address, const DeviceMeterOptions& options) {
  if (pci_address.empty()) {
    log_debug("the bottleneck report lacks the use of the device: it is not a GPU");
    return;
  }
  sampler_ = std::jthread([this, pci_address, options](const std::stop_token& stop) {
    try {
      sample(stop, pci_address, options);
    } catch (const Error& error) {
      const std::scoped_lock lock(mutex_);
      samples_ = 0;
      log_debug("the bottleneck report lacks the use of the device: {}", error.what());
    }
  });
}

// The thread also opens NVML, which can take long.
void DeviceMeter::sample(const std::stop_token& stop, const std::string& pci_address,
                         const DeviceMeterOptions& options) {
  const device::NvmlDevice device(pci_address);
  std::chrono::milliseconds pause = std::max(options.settling, options.interval);
  while (wait_for(pause, stop)) {
    const device::DeviceUsage usage = device.read();
    pause = options.interval;
    const std::scoped_lock lock(mutex_);
    ++samples_;
    sum_.busy += usage.busy;
    sum_.hot += usage.is_hot ? 1 : 0;
    sum_.power_limited += usage.is_power_limited ? 1 : 0;
    sum_.memory_used = std::max(sum_.memory_used, usage.memory_used);
    sum_.memory_total = usage.memory_total;
  }
}

std::optional<DeviceCosts> DeviceMeter::costs() const {
  const std::scoped_lock lock(mutex_);
  if (samples_ == 0) return std::nullopt;
  DeviceCosts costs = sum_;
  const auto count = static_cast<double>(samples_);
  costs.busy /= count;
  costs.hot /= count;
  costs.power_limited /= count;
  return costs;
}

}  // namespace horo::ops

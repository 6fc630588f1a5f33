#pragma once

#include <span>
#include <string>

#include "horo/coordinator/device_runner.h"
#include "horo/device_gradient_sync.h"
#include "horo/runtime.h"

namespace horo {

/// Agrees with all ranks on the plan `name` of gradients in the memory of `device`, in a named
/// operation, and makes what exchanges it. Collective; throws as the constructor of
/// DeviceGradientSync does.
coordinator::DeviceRunner::Parts agree_on_device_plan(Runtime& runtime, const std::string& name,
                                                      device::Device& device,
                                                      std::span<const NamedTensor> gradients,
                                                      const DeviceGradientSyncOptions& options);

}  // namespace horo

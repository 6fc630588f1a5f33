#pragma once

#include <span>
#include <string>

#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"
#include "horo/device/device.h"
#include "horo/plan/device_runner.h"
#include "horo/runtime/runtime.h"

namespace horo {

/// Agrees with all ranks on the plan `name`, whose gradients are in the memory of `device`, and
/// makes the objects that exchange the buckets. Collective, as a named operation. Throws as the
/// constructor of GradientSync does.
plan::DeviceRunner::Parts agree_on_device_plan(Runtime& runtime, const std::string& name,
                                               device::Device& device,
                                               std::span<const NamedTensor> gradients,
                                               const GradientSyncOptions& options);

}  // namespace horo

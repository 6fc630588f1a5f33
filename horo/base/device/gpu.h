#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horo/base/device/device.h"

namespace horo::device {

/// Whether this build of horo can use GPUs. Never throws.
bool is_built_with_gpus() noexcept;

/// How many GPUs this process can use. A machine without a GPU or without its driver, and a horo
/// that was built without CUDA, have none. Never throws.
int count_gpus() noexcept;

/// Their PCI addresses, "0000:01:00.0", in the order of their indices. Never throws.
std::vector<std::string> gpu_addresses() noexcept;

/// The GPU `index`, from 0, which becomes the calling thread's current device. Throws DeviceError
/// if it is not there.
std::unique_ptr<Device> open_gpu(int index);

}  // namespace horo::device

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horo/device/device.h"

namespace horo::device {

/// Whether this build of horo can use GPUs. Never throws.
bool is_built_with_gpus() noexcept;

/// The number of GPUs that this process can use. 0 without a GPU, without its driver, or if horo
/// was built without CUDA. Never throws.
int count_gpus() noexcept;

/// The PCI addresses of these GPUs, such as "0000:01:00.0", in the order of their indices. Never
/// throws.
std::vector<std::string> gpu_addresses() noexcept;

/// The PCI address of `device`; empty if it is not a GPU. Never throws.
std::string gpu_address(const Device& device) noexcept;

/// Opens GPU `index`, counted from 0, and makes it the current device of the calling thread. Throws
/// DeviceError if there is no such GPU.
std::unique_ptr<Device> open_gpu(int index);

}  // namespace horo::device

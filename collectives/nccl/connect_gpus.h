#pragma once

#include <memory>
#include <string>

#include "collectives/collectives.h"
#include "collectives/device/device_collectives.h"
#include "collectives/nccl/nccl_options.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// Makes an NcclCollectives. For the arguments and the errors, see the constructor of
/// NcclCollectives. Throws DeviceError if horo was built without CUDA.
std::unique_ptr<DeviceCollectives> connect_gpus(Collectives& control, int rank, int size,
                                                const std::string& name, const WaitPolicy& policy,
                                                const NcclOptions& options = {});

/// Allocates device memory that DeviceCollectives::register_memory() can register with NCCL, for
/// gradients that are reduced in place. The address is a multiple of 256 bytes. Allocates ordinary
/// memory of `device` if it is not a GPU, or if NCCL is not available or cannot allocate. Not
/// collective; needs no connection. Thread-safe. Throws DeviceError like Device::allocate().
device::Memory allocate_exchange_memory(device::Device& device, std::size_t bytes);

}  // namespace horo::collectives

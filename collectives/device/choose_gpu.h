#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Returns the GPU of this rank (see device::assign_gpus()), as an index into the result of
/// `find_gpus`. `find_gpus` is device::gpu_addresses() except in tests. Sets the environment
/// variables for ranks that may share GPUs, and those for ranks that do. Collective over `control`,
/// the group of `topology`. Call it before the first use of CUDA and NCCL, and while no other
/// thread reads the environment. Throws DeviceError on all ranks if assign_gpus() rejects the
/// setup.
int choose_gpu(Collectives& control, const Topology& topology,
               const std::function<std::vector<std::string>()>& find_gpus, bool may_share);

}  // namespace horo::collectives

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Returns the GPU of this rank (see device::assign_gpus()), as an index into the result of
/// `find_gpus`. `find_gpus` is device::gpu_addresses() except in tests. If `may_share`, first sets
/// the environment variables of device::loading_variables(). At the end, sets the variables of
/// device::sharing_variables(), of which there are none unless ranks share a GPU. Does not change
/// variables that the process already has. Collective over `control`, which connects the ranks of
/// `topology`. The caller must call this function before the process first uses CUDA or NCCL, and
/// while no other thread reads the environment. Throws DeviceError on all ranks if assign_gpus()
/// rejects the GPUs.
int choose_gpu(Collectives& control, const Topology& topology,
               const std::function<std::vector<std::string>()>& find_gpus, bool may_share);

}  // namespace horo::collectives

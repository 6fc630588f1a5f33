#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// The GPU of this rank (device::assign_gpus()), as an index of what `find_gpus`, which is
/// device::gpu_addresses() but in tests, returns. Sets the environment variables that ranks which
/// may share GPUs need, and those of ranks which do. Collective over `control`, the group of
/// `topology`; before CUDA is first used and NCCL loaded, and while no other thread reads the
/// environment. Throws DeviceError, on all ranks, where assign_gpus() refuses.
int choose_gpu(Collectives& control, const Topology& topology,
               const std::function<std::vector<std::string>()>& find_gpus, bool may_share);

}  // namespace horo::collectives

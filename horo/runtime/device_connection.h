#pragma once

#include <string>

#include "collectives/collectives.h"
#include "collectives/device/device_connection.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/device/device.h"
#include "horo/runtime/runtime.h"

namespace horo {

/// Connects the ranks' devices. The caller must call this function in a named operation of kind
/// kTask, whose collectives are `control`. `name` is the name of the connection in logs. If
/// HORO_ALGORITHM is hierarchical and there are several nodes, connects the devices of each node
/// and, in host memory, the ranks of different nodes. Otherwise connects all devices with each
/// other. With NCCL, a collective uses at most `max_ctas` blocks; 0: as NCCL decides. Makes
/// `device` the current device of the calling thread. If `device` is the host stand-in, selects
/// sleep waits in `waits`. `device` and `waits` must outlive the result. Collective; requires
/// several ranks. Throws CommunicationError, and DeviceError if NCCL is not available. If the
/// devices of each node are connected separately, an error in the connection of a node's devices is
/// not thrown, but returned in `error_text`.
collectives::DeviceConnection connect_devices(Runtime& runtime, const std::string& name,
                                              device::Device& device, coordinator::PlanWaits& waits,
                                              std::size_t max_ctas,
                                              collectives::Collectives& control);

}  // namespace horo

#pragma once

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_collectives.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/runtime/runtime.h"

namespace horo {

/// The channels between the ranks' devices.
struct DeviceConnection {
  /// The communicator that `collectives` uses. Null unless the devices are host stand-ins and all
  /// are connected with each other.
  std::unique_ptr<collectives::Communicator> communicator;
  std::unique_ptr<collectives::DeviceCollectives> collectives;
  /// The reason why this rank has no collectives; empty if it has. Input of first_problem().
  std::string error_text{};
};

/// Connects the ranks' devices. The caller must call this function in a named operation of kind
/// kTask, whose collectives are `control`. `name` is the name of the connection in logs. If
/// HORO_ALGORITHM is hierarchical and there are several nodes, connects the devices of each node
/// and, in host memory, the ranks of different nodes. Otherwise connects all devices with each
/// other. Makes `device` the current device of the calling thread. If `device` is the host
/// stand-in, selects sleep waits in `waits`. `device` and `waits` must outlive the result.
/// Collective; requires several ranks. Throws CommunicationError, and DeviceError if NCCL is not
/// available. If the devices of each node are connected separately, an error in the connection of
/// a node's devices is not thrown, but returned in `error_text`.
DeviceConnection connect_devices(Runtime& runtime, const std::string& name, device::Device& device,
                                 coordinator::PlanWaits& waits, collectives::Collectives& control);

/// Makes a pipeline that reduces with the collectives `made`, which also allocate its buffers.
/// Collective over `control`, which connects the same ranks as `made`. Throws DeviceError if this
/// rank has too little memory. The other ranks do not throw.
std::unique_ptr<collectives::ChunkPipeline> make_pipeline(device::Device& device,
                                                          collectives::DeviceCollectives& made,
                                                          std::size_t buffer_bytes,
                                                          collectives::Collectives& control,
                                                          int buffers = 2);

/// Returns the text of the lowest rank whose `own` is not empty, so that all ranks fail with the
/// same reason. Returns an empty text if `own` is empty on all ranks. Collective.
std::string first_problem(const std::string& own, collectives::Collectives& control,
                          const Topology& topology);

}  // namespace horo

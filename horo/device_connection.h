#pragma once

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_collectives.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/runtime.h"

namespace horo {

/// How the ranks' devices reach each other.
struct DeviceConnection {
  std::unique_ptr<collectives::Communicator> communicator;  ///< of the stand-in; otherwise null
  std::unique_ptr<collectives::DeviceCollectives> collectives;
  /// Not empty: why this rank has no collectives. For first_problem().
  std::string refusal{};
};

/// Connects the ranks' devices for what is called `name`, from within a named task, whose
/// collectives are `control`: all with each other, or by nodes, if HORO_ALGORITHM asks for that and
/// there are several. `device` becomes the calling thread's current one; `waits`, which outlives
/// the result, is made to wait as it needs. Collective, of several ranks. Throws
/// CommunicationError.
DeviceConnection connect_devices(Runtime& runtime, const std::string& name, device::Device& device,
                                 coordinator::PlanWaits& waits, collectives::Collectives& control);

/// A pipeline whose buffers are of the kind that `made` are fastest in. Collective over `control`,
/// which connects the same ranks. Throws DeviceError where this rank has too little memory.
std::unique_ptr<collectives::ChunkPipeline> make_pipeline(device::Device& device,
                                                          collectives::DeviceCollectives& made,
                                                          std::size_t buffer_bytes,
                                                          collectives::Collectives& control,
                                                          int buffers = 2);

/// The first rank's text that is not empty: what one rank cannot have, none goes on without.
/// Collective.
std::string first_problem(const std::string& own, collectives::Collectives& control,
                          const Topology& topology);

}  // namespace horo

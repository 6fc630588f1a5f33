#pragma once

#include <memory>
#include <string>

#include "collectives/collectives.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// Makes an NcclCollectives. For the arguments and the errors, see the constructor of
/// NcclCollectives. Throws DeviceError if horo was built without CUDA.
std::unique_ptr<DeviceCollectives> connect_gpus(Collectives& control, int rank, int size,
                                                const std::string& name, const WaitPolicy& policy);

}  // namespace horo::collectives

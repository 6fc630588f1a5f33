#pragma once

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/device/device_collectives.h"

namespace horo::collectives {

/// The channels between the ranks' devices.
struct DeviceConnection {
  /// The communicator that `collectives` uses. Null unless the devices are host stand-ins and all
  /// are connected with each other.
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<DeviceCollectives> collectives;
  /// The reason why this rank has no collectives; empty if it has. Input of first_problem().
  std::string error_text{};
};

}  // namespace horo::collectives

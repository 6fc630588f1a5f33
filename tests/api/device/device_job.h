#pragma once

#include <memory>

#include "horo/horo.h"

namespace horo {

/// The device of a rank of a test: the stand-in with host_device_job.cpp, a GPU with
/// gpu_device_job.cpp. Collective.
std::shared_ptr<device::Device> open_device(Context& ctx);

}  // namespace horo

#pragma once

#include <memory>

#include "horo/device/host/host_device.h"

namespace horo::device {

/// Creates the device under test: the host stand-in, or this process's first GPU in programs that
/// link gpu_under_test.cpp. The GPU ignores `options`.
std::unique_ptr<Device> make_device(const HostDevice::Options& options = {});

}  // namespace horo::device

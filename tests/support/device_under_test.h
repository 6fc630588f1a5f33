#pragma once

#include <memory>

#include "horo/base/device/host_device.h"

namespace horo::device {

/// The device that a program of tests is about: the stand-in, or with gpu_under_test.cpp in its
/// place this process's first GPU, for which `options` mean nothing.
std::unique_ptr<Device> make_device(const HostDevice::Options& options = {});

}  // namespace horo::device

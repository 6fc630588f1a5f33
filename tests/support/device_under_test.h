#pragma once

#include <functional>
#include <memory>

#include "horo/base/device/host_device.h"

namespace horo::device {

/// The device that a program of tests is about: the stand-in, or with gpu_under_test.cpp in its
/// place this process's first GPU, for which `options` mean nothing.
std::unique_ptr<Device> make_device(const HostDevice::Options& options = {});

/// Gives work for the host to a stream of that device. It may neither wait for other work nor give
/// the device any.
void submit_to_host(Stream& stream, std::function<void()> work);

}  // namespace horo::device

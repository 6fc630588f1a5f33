#include "horo/device/gpu.h"
#include "tests/support/device_under_test.h"

namespace horo::device {

std::unique_ptr<Device> make_device(const HostDevice::Options&) { return open_gpu(0); }

}  // namespace horo::device

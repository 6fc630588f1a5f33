#include "tests/support/device_under_test.h"

namespace horo::device {

std::unique_ptr<Device> make_device(const HostDevice::Options& options) {
  return std::make_unique<HostDevice>(options);
}

}  // namespace horo::device

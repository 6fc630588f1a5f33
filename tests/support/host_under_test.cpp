#include <utility>

#include "tests/support/device_under_test.h"

namespace horo::device {

std::unique_ptr<Device> make_device(const HostDevice::Options& options) {
  return std::make_unique<HostDevice>(options);
}

void submit_to_host(Stream& stream, std::function<void()> work) { submit(stream, std::move(work)); }

}  // namespace horo::device

#include "horo/device/host/host_device.h"
#include "tests/api/device/device_job.h"

namespace horo {

std::shared_ptr<device::Device> open_device(Context& ctx) {
  return std::make_shared<device::HostDevice>(
      device::HostDevice::Options{.max_delay = std::chrono::microseconds(100),
                                  .seed = static_cast<std::uint64_t>(ctx.rank()) + 1});
}

}  // namespace horo

#include "tests/api/device/device_job.h"

namespace horo {

std::shared_ptr<device::Device> open_device(Context& ctx) { return open_gpu(ctx); }

}  // namespace horo

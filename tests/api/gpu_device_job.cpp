#include "tests/api/device_job.h"

namespace horo {

std::unique_ptr<device::Device> open_device(Context& ctx) { return open_gpu(ctx); }

}  // namespace horo

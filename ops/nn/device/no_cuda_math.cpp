#include "horo/base/error.h"
#include "ops/nn/device/device_math.h"

namespace horo::ops {

std::unique_ptr<DeviceMath> make_cuda_math(device::Stream&, device::CachingAllocator&) {
  throw DeviceError(
      "this build of horo has no CUDA; build it where nvcc, NCCL and cuDNN are found");
}

}  // namespace horo::ops

#include "horo/base/error.h"
#include "ops/backend/operations.h"

namespace horo::ops {

std::unique_ptr<Operations> make_cuda_operations(device::Stream&, device::CachingAllocator&) {
  throw DeviceError(
      "this build of horo has no CUDA; build it where nvcc, NCCL and cuDNN are found");
}

}  // namespace horo::ops

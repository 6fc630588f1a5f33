#include "horo/base/device/gpu.h"
#include "horo/base/error.h"

namespace horo::device {

bool is_built_with_gpus() noexcept { return false; }

int count_gpus() noexcept { return 0; }

std::vector<std::string> gpu_addresses() noexcept { return {}; }

std::unique_ptr<Device> open_gpu(int) {
  throw DeviceError(
      "this build of horo has no CUDA; build it where nvcc, NCCL and cuDNN are found");
}

}  // namespace horo::device

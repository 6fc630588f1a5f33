#include "horo/base/error.h"
#include "horo/device/cuda/nvtx_range.h"
#include "horo/device/cuda/profiler.h"
#include "horo/device/gpu.h"

namespace horo::device {

bool is_built_with_gpus() noexcept { return false; }

int count_gpus() noexcept { return 0; }

std::vector<std::string> gpu_addresses() noexcept { return {}; }

std::string gpu_address(const Device&) noexcept { return {}; }

std::unique_ptr<Device> open_gpu(int) {
  throw DeviceError(
      "this build of horo has no CUDA; build it where nvcc, NCCL and cuDNN are found");
}

std::uint64_t begin_nvtx_range(std::string_view, std::uint64_t) noexcept { return 0; }
void end_nvtx_range(std::uint64_t) noexcept {}

void start_profiler() noexcept {}
void stop_profiler() noexcept {}

}  // namespace horo::device

#include <cuda_runtime_api.h>

#include <utility>

#include "horo/base/device/cuda_check.h"
#include "horo/base/device/gpu.h"
#include "tests/support/device_under_test.h"

namespace horo::device {

std::unique_ptr<Device> make_device(const HostDevice::Options&) { return open_gpu(0); }

void submit_to_host(Stream& stream, std::function<void()> work) {
  using Work = std::function<void()>;
  auto owned = std::make_unique<Work>(std::move(work));
  HORO_CUDA(cudaLaunchHostFunc(
      static_cast<cudaStream_t>(stream.native()),
      [](void* given) { (*std::unique_ptr<Work>(static_cast<Work*>(given)))(); }, owned.get()));
  owned.release();
}

}  // namespace horo::device

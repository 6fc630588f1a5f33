#include "horo/device/cuda/gpu_signal.h"

#include <cudaTypedefs.h>
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "horo/base/error.h"

namespace horo::device {
namespace {

using WaitValue = PFN_cuStreamWaitValue32_v11070;

// The driver's library is not linked, so the runtime has to find the function.
WaitValue find_wait_value() {
  constexpr unsigned kVersion = 11070;  // of CUDA, as in the name of the type
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status{};
  HORO_CUDA(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, kVersion,
                                             cudaEnableDefault, &status));
  if (function == nullptr || status != cudaDriverEntryPointSuccess)
    throw DeviceError(
        "the driver has no cuStreamWaitValue32(): update it, or unset HORO_ALGORITHM=hierarchical");
  return reinterpret_cast<WaitValue>(function);
}

WaitValue wait_value() {
  static const WaitValue function = find_wait_value();
  return function;
}

}  // namespace

GpuSignal::GpuSignal(Memory pinned) : pinned_(std::move(pinned)) {
  wait_value();
  std::atomic_ref(*word()).store(0, std::memory_order_relaxed);
}

void GpuSignal::raise(std::uint32_t number) {
  std::atomic_ref(*word()).store(number, std::memory_order_release);
}

// The device can read pinned memory at its host address. The comparison of the driver is
// has_reached().
void GpuSignal::add_wait(cudaStream_t stream, std::uint32_t number) const {
  const CUresult result =
      wait_value()(stream, reinterpret_cast<CUdeviceptr>(word()), number, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS)
    throw DeviceError(
        fmt::format("cuStreamWaitValue32 failed with error {}", static_cast<int>(result)));
}

}  // namespace horo::device

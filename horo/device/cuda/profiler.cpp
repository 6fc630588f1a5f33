#include "horo/device/cuda/profiler.h"

#include <cuda_profiler_api.h>

#include "horo/base/text/log.h"
#include "horo/device/cuda/cuda_check.h"

namespace horo::device {
namespace {

void warn_unless_done(cudaError_t result, const char* call) {
  if (result != cudaSuccess)
    log_warning("the profile is not complete: {} failed: {}", call, cudaGetErrorString(result));
}

}  // namespace

void start_profiler() noexcept { warn_unless_done(cudaProfilerStart(), "cudaProfilerStart"); }
void stop_profiler() noexcept { warn_unless_done(cudaProfilerStop(), "cudaProfilerStop"); }

}  // namespace horo::device

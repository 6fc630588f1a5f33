#include "horo/device/cuda/cuda_check.h"

#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::device {

void check_cuda(cudaError_t result, const char* call, SourceLocation where) {
  if (result == cudaSuccess) return;
  // CUDA also stores the error for the next call of cudaGetLastError().
  cudaGetLastError();  // clears the error, unless the device is lost
  throw DeviceError(fmt::format("{} failed: {} ({}), at {}:{}", call, cudaGetErrorString(result),
                                cudaGetErrorName(result), where.file_name(), where.line()));
}

}  // namespace horo::device

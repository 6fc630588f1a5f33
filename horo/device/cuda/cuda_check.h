#pragma once

#include <cuda_runtime_api.h>

#include "horo/base/source_location.h"

namespace horo::device {

/// Throws DeviceError with the call, CUDA's text and the source location, unless `result` is
/// cudaSuccess.
void check_cuda(cudaError_t result, const char* call,
                SourceLocation where = SourceLocation::current());

}  // namespace horo::device

#define HORO_CUDA(call) ::horo::device::check_cuda((call), #call)

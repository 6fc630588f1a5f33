#pragma once

#include <cuda_runtime_api.h>

namespace horo::fakes {

/// Stores an error for cudaGetLastError() of the calling thread, and returns it.
cudaError_t keep(cudaError_t error);

}  // namespace horo::fakes

#include "ops/kernels/cuda/cudnn_handle.h"

#include <cuda_runtime_api.h>

#include "ops/kernels/cuda/cudnn_library.h"

namespace horo::ops::cuda {

Cudnn::Cudnn() {
  cudnnHandle_t handle = nullptr;
  HORO_CUDNN(create, &handle);
  handle_.reset(handle);
}

cudnnHandle_t Cudnn::on(const device::Stream& stream) const {
  HORO_CUDNN(set_stream, handle_.get(), static_cast<cudaStream_t>(stream.native()));
  return handle_.get();
}

void Cudnn::Destroy::operator()(cudnnHandle_t handle) const noexcept { cudnn().destroy(handle); }

}  // namespace horo::ops::cuda

#include "ops/backend/cuda/pooling.h"

#include <utility>

#include "ops/backend/cuda/cudnn_library.h"

namespace horo::ops::cuda {

namespace {

constexpr float kOne = 1, kZero = 0;

}  // namespace

PoolKernel::PoolKernel(PoolingDescription description, const ImageBatch& input,
                       const ImageFormat& format)
    : description_(std::move(description)),
      input_(input, format),
      output_(description_.output_of(input_), format) {}

PoolKernel PoolKernel::largest(const PoolShape& shape, const ImageFormat& format) {
  return {PoolingDescription::largest(shape.window), shape.input, format};
}

PoolKernel PoolKernel::average(const PoolShape& shape, const ImageFormat& format) {
  return {PoolingDescription::average(shape.window), shape.input, format};
}

PoolKernel PoolKernel::average_of_planes(const ImageBatch& input, const ImageFormat& format) {
  return {PoolingDescription::average_of_plane(input.height, input.width), input, format};
}

void PoolKernel::forward(const CudnnWork& work, const void* input, void* output) const {
  HORO_CUDNN(pooling_forward, work.handle(), description_.get(), &kOne, input_.get(), input, &kZero,
             output_.get(), output);
}

void PoolKernel::backward(const CudnnWork& work, const void* input, const void* output,
                          const void* output_gradient, void* input_gradient) const {
  HORO_CUDNN(pooling_backward, work.handle(), description_.get(), &kOne, output_.get(), output,
             output_.get(), output_gradient, input_.get(), input, &kZero, input_.get(),
             input_gradient);
}

}  // namespace horo::ops::cuda

#include "ops/backend/cuda/image_kernels.h"

#include <utility>

#include "ops/backend/cuda/cudnn_library.h"

namespace horo::ops::cuda {

namespace {

constexpr float kOne = 1, kZero = 0;
constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;

}  // namespace

PoolKernel::PoolKernel(PoolingDescription description, const ImageBatch& input,
                       const ImageFormat& format)
    : description_(std::move(description)),
      input_(input, format),
      output_(description_.output_of(input_), format) {}

PoolKernel PoolKernel::largest(const PoolShape& shape, const ImageFormat& format) {
  return {PoolingDescription::largest(shape.window), shape.input, format};
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

BatchNormKernel::BatchNormKernel(const ImageBatch& shape, double epsilon, const ImageFormat& format)
    : epsilon_(epsilon), images_(shape, format), channels_(images_.derived_for_batch_norm()) {}

void BatchNormKernel::forward_training(const CudnnWork& work, const Training& arrays) const {
  HORO_CUDNN(batch_norm_forward_training, work.handle(), kMode, &kOne, &kZero, images_.get(),
             arrays.input, images_.get(), arrays.output, channels_.get(), arrays.scale,
             arrays.shift, arrays.momentum, arrays.running_mean, arrays.running_variance, epsilon_,
             arrays.mean, arrays.inverse_deviation);
}

void BatchNormKernel::forward_inference(const CudnnWork& work, const Inference& arrays) const {
  HORO_CUDNN(batch_norm_forward_inference, work.handle(), kMode, &kOne, &kZero, images_.get(),
             arrays.input, images_.get(), arrays.output, channels_.get(), arrays.scale,
             arrays.shift, arrays.mean, arrays.variance, epsilon_);
}

void BatchNormKernel::backward(const CudnnWork& work, const Backward& arrays) const {
  HORO_CUDNN(batch_norm_backward, work.handle(), kMode, &kOne, &kZero, &kOne, &kZero, images_.get(),
             arrays.input, images_.get(), arrays.output_gradient, images_.get(),
             arrays.input_gradient, channels_.get(), arrays.scale, arrays.scale_gradient,
             arrays.shift_gradient, epsilon_, arrays.mean, arrays.inverse_deviation);
}

}  // namespace horo::ops::cuda

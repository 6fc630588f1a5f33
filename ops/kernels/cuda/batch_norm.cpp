#include "ops/kernels/cuda/batch_norm.h"

#include "ops/kernels/cuda/cudnn_library.h"

namespace horo::ops::cuda {
namespace {

constexpr float kOne = 1, kZero = 0;
constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;

}  // namespace

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

#pragma once

#include "ops/kernels/cuda/cudnn_descriptors.h"
#include "ops/kernels/cuda/cudnn_handle.h"
#include "ops/kernels/shapes.h"

namespace horo::ops::cuda {

/// Normalisation of every channel over the batch and the pixels, for one fixed shape;
/// cpu::BatchNormKernel's counterpart. Images lie in the GPU's memory as the format says; scales,
/// shifts, statistics and their gradients are float32 [channels] whatever the images' type. Work is
/// given to the stream; needs no workspace; used from one thread at a time. (cuDNN's faster
/// persistent mode is left out: it may overflow where float16 is near its limits.)
class BatchNormKernel {
 public:
  /// `epsilon` is added to the variance before the square root. Needs no GPU.
  BatchNormKernel(const ImageBatch& shape, double epsilon, const ImageFormat& format = {});

  struct Training {
    const void* input;
    const float* scale;
    const float* shift;
    void* output;
    /// new = (1 - momentum) * old + momentum * that of the batch, the variance unbiased.
    float* running_mean;
    float* running_variance;
    double momentum;
    /// Of the batch, for backward(): the mean, and 1 / sqrt(variance + epsilon).
    float* mean;
    float* inverse_deviation;
  };
  /// Normalises with the statistics of this batch.
  void forward_training(const CudnnWork& work, const Training& arrays) const;

  struct Inference {
    const void* input;
    const float* scale;
    const float* shift;
    const float* mean;
    const float* variance;
    void* output;
  };
  /// Normalises with the given statistics.
  void forward_inference(const CudnnWork& work, const Inference& arrays) const;

  struct Backward {
    const void* input;
    const void* output_gradient;
    const float* scale;
    const float* mean;
    const float* inverse_deviation;
    void* input_gradient;
    float* scale_gradient;
    float* shift_gradient;
  };
  /// Overwrites the three gradients.
  void backward(const CudnnWork& work, const Backward& arrays) const;

  const TensorDescription& images() const { return images_; }
  const TensorDescription& channels() const { return channels_; }

 private:
  double epsilon_;
  TensorDescription images_;
  TensorDescription channels_;
};

}  // namespace horo::ops::cuda

#pragma once

#include "ops/kernels/batch_norm_arrays.h"
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

  using Training = BatchNormTraining;
  /// Normalises with the statistics of this batch.
  void forward_training(const CudnnWork& work, const Training& arrays) const;

  using Inference = BatchNormInference;
  /// Normalises with the given statistics.
  void forward_inference(const CudnnWork& work, const Inference& arrays) const;

  using Backward = BatchNormBackward;
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

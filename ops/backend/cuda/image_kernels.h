#pragma once

#include "ops/backend/batch_norm_arrays.h"
#include "ops/backend/cuda/cudnn_descriptors.h"
#include "ops/backend/cuda/cudnn_library.h"
#include "ops/backend/shapes.h"

namespace horo::ops::cuda {

/// Pooling of one fixed shape: the largest value of each window, or the average of each plane.
/// Arrays are in GPU memory in the given format. Work is submitted to the stream and needs no
/// workspace. Used from one thread at a time.
class PoolKernel {
 public:
  /// Neither function needs a GPU.
  static PoolKernel largest(const PoolShape& shape, const ImageFormat& format = {});
  /// [batch, channels, height, width] to [batch, channels, 1, 1].
  static PoolKernel average_of_planes(const ImageBatch& input, const ImageFormat& format = {});

  void forward(const CudnnWork& work, const void* input, void* output) const;
  /// Overwrites input_gradient. `input` and `output` as in the forward pass.
  void backward(const CudnnWork& work, const void* input, const void* output,
                const void* output_gradient, void* input_gradient) const;

  const TensorDescription& input() const { return input_; }
  const TensorDescription& output() const { return output_; }

 private:
  PoolKernel(PoolingDescription description, const ImageBatch& input, const ImageFormat& format);

  PoolingDescription description_;
  TensorDescription input_, output_;
};

/// Normalises every channel over the batch and the pixels, for one fixed shape: the counterpart of
/// cpu::BatchNormKernel. Images are in GPU memory in the given format. Scales, shifts, statistics
/// and their gradients are float32 [channels] for every type of the images. Work is submitted to
/// the stream and needs no workspace. Used from one thread at a time. (Does not use cuDNN's faster
/// persistent mode, which may overflow if float16 values are near their limits.)
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

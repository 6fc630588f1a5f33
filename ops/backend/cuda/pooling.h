#pragma once

#include "ops/backend/cuda/cudnn_descriptors.h"
#include "ops/backend/cuda/cudnn_library.h"
#include "ops/backend/shapes.h"

namespace horo::ops::cuda {

/// Pooling of one fixed shape: the largest value or the average of each window, or the average of
/// each plane. Arrays are in GPU memory in the given format. Work is submitted to the stream and
/// needs no workspace. Used from one thread at a time.
class PoolKernel {
 public:
  /// None of these functions needs a GPU.
  static PoolKernel largest(const PoolShape& shape, const ImageFormat& format = {});
  /// Averages do not count the padding.
  static PoolKernel average(const PoolShape& shape, const ImageFormat& format = {});
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

}  // namespace horo::ops::cuda

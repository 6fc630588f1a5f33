#pragma once

#include <memory>

#include "ops/backend/shapes.h"

namespace horo::ops::cpu {

/// Normalisation of every channel over the batch and the pixels, for one fixed shape. Images are
/// row-major; mean, variance (biased: divided by the number of values), scale, shift and their
/// gradients have one value per channel. Used from one thread at a time; throws horo::Error if
/// oneDNN fails.
class BatchNormKernel {
 public:
  /// `epsilon` is added to the variance before the square root.
  BatchNormKernel(const ImageBatch& shape, float epsilon);
  ~BatchNormKernel();
  BatchNormKernel(const BatchNormKernel&) = delete;
  BatchNormKernel& operator=(const BatchNormKernel&) = delete;

  /// Normalises with the statistics of this batch, and writes them to `mean` and `variance`.
  void forward_training(const float* input, const float* scale, const float* shift, float* output,
                        float* mean, float* variance);
  /// Normalises with the given statistics.
  void forward_inference(const float* input, const float* scale, const float* shift,
                         const float* mean, const float* variance, float* output);
  /// `mean` and `variance` as forward_training wrote them. Overwrites the three gradients.
  void backward(const float* input, const float* output_gradient, const float* scale,
                const float* mean, const float* variance, float* input_gradient,
                float* scale_gradient, float* shift_gradient);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace horo::ops::cpu

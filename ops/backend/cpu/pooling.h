#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ops/backend/shapes.h"

namespace horo::ops::cpu {

/// The average of each channel of each image: `averages` is [batch, channels]. Sums are in the
/// order of memory, so the same input gives the same bits.
void global_average_pool(const ImageBatch& shape, ImageLayout layout, std::span<const float> input,
                         std::span<float> averages);
/// Overwrites input_gradient: each pixel of a channel gets an equal share of the gradient of its
/// average.
void global_average_pool_backward(const ImageBatch& shape, ImageLayout layout,
                                  std::span<const float> gradient, std::span<float> input_gradient);

/// Pooling of one fixed shape: the largest value or the average of each window. Averages do not
/// count the padding. The training forward pass records the largest pixel of each window.
/// backward() uses the latest training pass, also after inference passes. Used from one thread at a
/// time; throws horo::Error if oneDNN fails.
class PoolKernel {
 public:
  enum class Kind { kLargest, kAverage };
  PoolKernel(Kind kind, const PoolShape& shape, ImageLayout layout = ImageLayout::kChannelsFirst);
  ~PoolKernel();
  PoolKernel(const PoolKernel&) = delete;
  PoolKernel& operator=(const PoolKernel&) = delete;

  void forward_inference(const float* input, float* output);
  void forward_training(const float* input, float* output);
  /// Overwrites input_gradient: the gradient of each output is added to the largest pixel of its
  /// window, or shared out among its pixels.
  void backward(const float* output_gradient, float* input_gradient);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace horo::ops::cpu

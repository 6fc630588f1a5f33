#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ops/backend/shapes.h"

namespace horo::ops::cpu {

/// The average of each plane of `pixels` values: `input` holds averages.size() planes one after the
/// other. Sums in the order of memory, so the same input gives the same bits.
void global_average_pool(std::span<const float> input, std::size_t pixels,
                         std::span<float> averages);
/// Overwrites input_gradient: each pixel of a plane gets an equal share of the gradient of its
/// average.
void global_average_pool_backward(std::span<const float> gradient, std::size_t pixels,
                                  std::span<float> input_gradient);

/// Max pooling of one fixed shape over row-major arrays. The training forward pass records the
/// largest pixel of each window. backward() uses the latest training pass, also after inference
/// passes. Used from one thread at a time; throws horo::Error if oneDNN fails.
class MaxPoolKernel {
 public:
  explicit MaxPoolKernel(const PoolShape& shape);
  ~MaxPoolKernel();
  MaxPoolKernel(const MaxPoolKernel&) = delete;
  MaxPoolKernel& operator=(const MaxPoolKernel&) = delete;

  void forward_inference(const float* input, float* output);
  void forward_training(const float* input, float* output);
  /// Overwrites input_gradient: the gradient of each output is added to the largest pixel of its
  /// window.
  void backward(const float* output_gradient, float* input_gradient);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace horo::ops::cpu

#pragma once

#include <memory>

#include "ops/kernels/shapes.h"

namespace horo::ops::cpu {

/// Max pooling of one fixed shape over row-major arrays. The training forward pass remembers which
/// pixel of each window won; backward() belongs to the latest of them, whatever inference passes
/// came between. Used from one thread at a time; throws horo::Error if oneDNN fails.
class MaxPoolKernel {
 public:
  explicit MaxPoolKernel(const PoolShape& shape);
  ~MaxPoolKernel();
  MaxPoolKernel(const MaxPoolKernel&) = delete;
  MaxPoolKernel& operator=(const MaxPoolKernel&) = delete;

  void forward_inference(const float* input, float* output);
  void forward_training(const float* input, float* output);
  /// Overwrites input_gradient: each output's gradient goes to the pixel that won its window.
  void backward(const float* output_gradient, float* input_gradient);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace horo::ops::cpu

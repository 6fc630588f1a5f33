#pragma once

#include <memory>

#include "ops/backend/shapes.h"

namespace horo::ops::cpu {

/// Two-dimensional convolution of one fixed shape. Images are in the given layout. Weights are
/// row-major with the dimensions of ConvolutionShape. oneDNN uses the layout it prefers for
/// weights, and for images with channels first; the others need no copy. Primitives are built on
/// first use and kept. Given the same inputs and number of threads, the results have the same bits.
/// Used from one thread at a time; throws horo::Error if oneDNN fails.
class ConvolutionKernel {
 public:
  explicit ConvolutionKernel(const ConvolutionShape& shape,
                             ImageLayout layout = ImageLayout::kChannelsFirst);
  ~ConvolutionKernel();
  ConvolutionKernel(const ConvolutionKernel&) = delete;
  ConvolutionKernel& operator=(const ConvolutionKernel&) = delete;

  /// Writes output. `bias` has out_channels values; ignored (may be null) without has_bias.
  void forward(const float* input, const float* weights, const float* bias, float* output);
  /// Overwrites weights_gradient and, with has_bias, bias_gradient.
  void backward_weights(const float* input, const float* output_gradient, float* weights_gradient,
                        float* bias_gradient);
  /// Overwrites input_gradient.
  void backward_data(const float* weights, const float* output_gradient, float* input_gradient);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace horo::ops::cpu

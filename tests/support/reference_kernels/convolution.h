#pragma once

#include "ops/backend/shapes.h"
#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// The array shapes are those of ConvolutionShape. `bias` may be empty without has_bias.
Values convolution(const ConvolutionShape& shape, const Values& input, const Values& weights,
                   const Values& bias);

struct ConvolutionGradients {
  Values input;
  Values weights;
  Values bias;  ///< computed with or without has_bias
};
ConvolutionGradients convolution_gradients(const ConvolutionShape& shape, const Values& input,
                                           const Values& weights, const Values& output_gradient);

}  // namespace horo::ops::reference

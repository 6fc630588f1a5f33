#pragma once

#include "ops/kernels/reference/values.h"
#include "ops/kernels/shapes.h"

namespace horo::ops::reference {

/// Arrays as InnerProductShape says; `bias` may be empty without has_bias.
Values inner_product(const InnerProductShape& shape, const Values& input, const Values& weights,
                     const Values& bias);

struct InnerProductGradients {
  Values input;
  Values weights;
  Values bias;  ///< computed with or without has_bias
};
InnerProductGradients inner_product_gradients(const InnerProductShape& shape, const Values& input,
                                              const Values& weights, const Values& output_gradient);

}  // namespace horo::ops::reference

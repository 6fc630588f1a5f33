#pragma once

#include "ops/backend/shapes.h"
#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// The array shapes are those of InnerProductShape. `bias` may be empty without has_bias.
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

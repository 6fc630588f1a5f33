#include "tests/support/reference_kernels/inner_product.h"

namespace horo::ops::reference {

Values inner_product(const InnerProductShape& shape, const Values& input, const Values& weights,
                     const Values& bias) {
  Values output(shape.batch * shape.out_features);
  for (std::size_t n = 0; n < shape.batch; ++n) {
    for (std::size_t out = 0; out < shape.out_features; ++out) {
      double sum = shape.has_bias ? bias[out] : 0.0;
      for (std::size_t in = 0; in < shape.in_features; ++in) {
        sum += input[n * shape.in_features + in] * weights[out * shape.in_features + in];
      }
      output[n * shape.out_features + out] = sum;
    }
  }
  return output;
}

InnerProductGradients inner_product_gradients(const InnerProductShape& shape, const Values& input,
                                              const Values& weights,
                                              const Values& output_gradient) {
  InnerProductGradients gradients{Values(input.size()), Values(weights.size()),
                                  Values(shape.out_features)};
  for (std::size_t n = 0; n < shape.batch; ++n) {
    for (std::size_t out = 0; out < shape.out_features; ++out) {
      const double gradient = output_gradient[n * shape.out_features + out];
      gradients.bias[out] += gradient;
      for (std::size_t in = 0; in < shape.in_features; ++in) {
        const std::size_t i = n * shape.in_features + in;
        const std::size_t w = out * shape.in_features + in;
        gradients.input[i] += gradient * weights[w];
        gradients.weights[w] += gradient * input[i];
      }
    }
  }
  return gradients;
}

}  // namespace horo::ops::reference

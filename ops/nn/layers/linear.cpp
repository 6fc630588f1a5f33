#include "ops/nn/layers/linear.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

InnerProductShape inner_product_shape(const LinearOptions& options, const Shape& input) {
  const std::size_t rank = input.rank();
  require_input(rank >= 2 && input[rank - 1] == options.in_features, "Linear", input,
                fmt::format("[batch, ..., {}]", options.in_features));
  return {input.count() / options.in_features, options.in_features, options.out_features,
          options.bias};
}

Shape with_features(const Shape& shape, std::size_t features) {
  std::vector<std::size_t> dimensions = shape.dimensions();
  dimensions.back() = features;
  return Shape(std::move(dimensions));
}

namespace {

const LinearOptions& checked(const LinearOptions& options) {
  HORO_CHECK(options.in_features > 0 && options.out_features > 0,
             fmt::format("Linear: {} input features, {} output features; each must be at least 1",
                         options.in_features, options.out_features));
  return options;
}

}  // namespace

// y [batch, out] = x [batch, in] * W^T + b, where W is [out, in]. dW = dy^T * x, db = the sum of dy
// over the batch, dx = dy * W.
Linear::Linear(const LinearOptions& options)
    : WeightedLayer({.kind = "Linear",
                     .weight = {checked(options).out_features, options.in_features},
                     .bias = options.bias,
                     .input_gradient = options.input_gradient}),
      options_(options) {}

WeightedLayer::Plan Linear::make_plan(const Shape& input) const {
  const InnerProductShape shape = inner_product_shape(options_, input);
  return {with_features(input, shape.out_features),
          backend().operations().linear(shape, backend().type())};
}

}  // namespace horo::ops

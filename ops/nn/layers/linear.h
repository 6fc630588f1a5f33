#pragma once

#include <cstddef>

#include "ops/backend/shapes.h"
#include "ops/nn/layers/weighted_layer.h"

namespace horo::ops {

/// The options of Linear.
struct LinearOptions {
  std::size_t in_features = 0;   ///< required
  std::size_t out_features = 0;  ///< required
  bool bias = true;              ///< whether a bias is added
  /// Set to false for the first layer of a network: backward() then skips this gradient and returns
  /// an empty tensor.
  bool input_gradient = true;
};

/// Returns the shape of the product for `input` [batch, ..., in_features]: its rows are all
/// dimensions except the last. Throws InvalidArgument if the shape does not fit.
InnerProductShape inner_product_shape(const LinearOptions& options, const Shape& input);

/// Returns `shape` with the last dimension replaced.
Shape with_features(const Shape& shape, std::size_t features);

/// output = input * weight^T + bias: [batch, ..., in_features] to [batch, ..., out_features].
/// Parameters: "weight" [out_features, in_features] and "bias" [out_features]. The weight starts as
/// initialise() draws it for seed 0, the bias as zero.
class Linear : public WeightedLayer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit Linear(const LinearOptions& options);
  /// The options of the constructor.
  const LinearOptions& options() const { return options_; }

 private:
  Plan make_plan(const Shape& input) const override;

  LinearOptions options_;
};

}  // namespace horo::ops

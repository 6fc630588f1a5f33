#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/kernels/shapes.h"
#include "ops/nn/layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

namespace cpu {
class InnerProductKernel;
}

struct LinearOptions {
  std::size_t in_features = 0;   ///< required
  std::size_t out_features = 0;  ///< required
  bool bias = true;
  /// Set to false for the first layer of a network: backward() then skips this gradient and returns
  /// an empty tensor.
  bool input_gradient = true;
};

/// Returns the shape of the product for `input`. Throws InvalidArgument if the shape does not fit.
InnerProductShape inner_product_shape(const LinearOptions& options, const Shape& input);

/// output = input * weight^T + bias: [batch, in_features] to [batch, out_features].
/// Parameters: "weight" [out_features, in_features] and "bias" [out_features]. The weight starts as
/// initialise() draws it for seed 0, the bias as zero.
class Linear : public Layer {
 public:
  explicit Linear(const LinearOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override;
  const LinearOptions& options() const { return options_; }

 private:
  LinearOptions options_;
  Parameter weight_;
  Parameter bias_;
  ShapeCache<cpu::InnerProductKernel> kernels_;
  std::shared_ptr<cpu::InnerProductKernel> kernel_;  // of the latest training forward
  Tensor input_;                                     // of the latest training forward
};

}  // namespace horo::ops

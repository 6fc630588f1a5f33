#pragma once

#include <cstddef>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// The options of LayerNorm.
struct LayerNormOptions {
  std::size_t features = 0;  ///< required; the last dimension of the input
  float epsilon = 1e-5f;     ///< added to the variance before the square root
};

/// Normalises the last dimension of [batch, ..., features] to mean 0 and variance 1, then scales by
/// "weight" and shifts by "bias". The same in training and in inference. Source: Ba, Kiros, Hinton,
/// "Layer normalization" (2016). Parameters: "weight" (starts as 1), "bias" (0), both [features]
/// and float32 for every type of the backend.
class LayerNorm : public Layer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit LayerNorm(const LayerNormOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  std::vector<Parameter*> parameters() override { return {&weight_, &bias_}; }
  /// The options of the constructor.
  const LayerNormOptions& options() const { return options_; }

 private:
  void on_move() override;

  LayerNormOptions options_;
  Parameter weight_;
  Parameter bias_;
  // of the latest training forward:
  Tensor input_;
  Tensor statistics_;
};

}  // namespace horo::ops

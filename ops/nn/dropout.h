#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

struct DropoutOptions {
  float probability = 0.5f;  ///< of setting a value to zero; in [0, 1)
};

/// In training, sets each value to zero with the given probability and multiplies the others by 1 /
/// (1 - probability), so that the expectation is unchanged. Inference returns the input. Works in
/// place on any shape [batch, ...]. The mask depends on pass.seed, pass.step, the sample's global
/// index and the feature, so it does not depend on the rank that has the sample. Sequential gives
/// each of its layers its own seed; two Dropouts called directly with one Pass draw the same mask.
class Dropout : public Layer {
 public:
  explicit Dropout(const DropoutOptions& options = {});

  /// In training, pass.samples must have the index of every sample of the batch.
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  const DropoutOptions& options() const { return options_; }

 private:
  DropoutOptions options_;
  float scale_;                     // 1 / (1 - probability)
  std::vector<std::uint8_t> kept_;  // of the latest training forward
  std::optional<Shape> shape_;      // of the latest training forward
};

}  // namespace horo::ops

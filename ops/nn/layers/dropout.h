#pragma once

#include <optional>

#include "ops/backend/device/dropout.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// The options of Dropout.
struct DropoutOptions {
  float probability = 0.5f;  ///< of setting a value to zero; in [0, 1)
};

/// In training, sets each value to zero with the given probability and multiplies the others by 1 /
/// (1 - probability), so that the expectation is unchanged. Inference returns the input. Any shape
/// [batch, ...]. The mask depends on pass.seed, pass.step, the sample's global
/// index and the feature, so it does not depend on the rank that has the sample. Sequential gives
/// each of its layers its own seed; two Dropouts called directly with one Pass draw the same mask.
class Dropout : public Layer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit Dropout(const DropoutOptions& options = {});

  /// In training, pass.samples must have the index of every sample of the batch.
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  /// The options of the constructor.
  const DropoutOptions& options() const { return options_; }

 private:
  /// The choice of the latest training forward.
  struct Choice {
    Shape shape;
    device_kernels::DropoutDraw draw;
    Tensor mask;
  };
  void on_move() override { choice_.reset(); }

  DropoutOptions options_;
  std::optional<Choice> choice_;
};

}  // namespace horo::ops

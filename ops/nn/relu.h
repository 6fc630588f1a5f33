#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Computes max(0, x) of every value, for any shape. Works in place.
class Relu : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 private:
  std::vector<std::uint8_t> passed_;  // of the latest training forward: 1 where the value was kept
  std::optional<Shape> shape_;        // of the latest training forward
};

}  // namespace horo::ops

#pragma once

#include <optional>

#include "ops/kernels/shapes.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// Returns the shape `input` as images. Throws InvalidArgument unless it has four dimensions.
ImageBatch averaged_images(const Shape& input);

/// The average of every channel of every image: [batch, channels, height, width] to
/// [batch, channels].
class GlobalAveragePool : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 private:
  std::optional<Shape> shape_;  // of the latest training forward's input
};

}  // namespace horo::ops

#pragma once

#include <cstddef>
#include <memory>

#include "ops/kernels/shapes.h"
#include "ops/nn/layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

namespace cpu {
class MaxPoolKernel;
}

struct MaxPool2dOptions {
  std::size_t kernel = 2;   ///< pixels; height and width of the window
  std::size_t stride = 0;   ///< 0: the same as kernel
  std::size_t padding = 0;  ///< at most kernel / 2; padded pixels are never the maximum
};

/// Returns the shape of the pooling for `input`. Throws InvalidArgument if the shape does not fit.
PoolShape pool_shape(const MaxPool2dOptions& options, const Shape& input);

/// Computes the largest value of every window: [batch, channels, height, width] to [batch,
/// channels, h, w], where h = (height + 2 padding - kernel) / stride + 1, rounded down.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(const MaxPool2dOptions& options = {});

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  const MaxPool2dOptions& options() const { return options_; }

 private:
  MaxPool2dOptions options_;
  ShapeCache<cpu::MaxPoolKernel> kernels_;
  std::shared_ptr<cpu::MaxPoolKernel> kernel_;  // of the latest training forward
  Shape input_shape_;                           // of the latest training forward
  Shape output_shape_;                          // of the latest training forward
};

}  // namespace horo::ops

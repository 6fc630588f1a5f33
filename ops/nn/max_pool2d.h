#pragma once

#include <cstddef>

#include "ops/backend/shapes.h"
#include "ops/nn/pool_layer.h"

namespace horo::ops {

struct MaxPool2dOptions {
  std::size_t kernel = 2;   ///< pixels; height and width of the window
  std::size_t stride = 0;   ///< 0: the same as kernel
  std::size_t padding = 0;  ///< at most kernel / 2; padded pixels are never the maximum
};

/// Returns the shape of the pooling for `input`. Throws InvalidArgument if the shape does not fit.
PoolShape pool_shape(const MaxPool2dOptions& options, const Shape& input);

/// Computes the largest value of every window: [batch, channels, height, width] to [batch,
/// channels, h, w], where h = (height + 2 padding - kernel) / stride + 1, rounded down.
class MaxPool2d : public PoolLayer {
 public:
  explicit MaxPool2d(const MaxPool2dOptions& options = {});
  const MaxPool2dOptions& options() const { return options_; }

 private:
  Plan make_plan(const Shape& input) const override;

  MaxPool2dOptions options_;
};

}  // namespace horo::ops

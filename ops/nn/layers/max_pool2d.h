#pragma once

#include "ops/nn/layers/pool_layer.h"

namespace horo::ops {

/// The largest value of every window; see WindowPool for the shapes.
class MaxPool2d : public WindowPool {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit MaxPool2d(const Pool2dOptions& options = {})
      : WindowPool("MaxPool2d", &Operations::max_pool, options) {}
};

}  // namespace horo::ops

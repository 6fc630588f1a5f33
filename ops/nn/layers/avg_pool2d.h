#pragma once

#include "ops/nn/layers/pool_layer.h"

namespace horo::ops {

/// The average of every window; see WindowPool for the shapes. A window at the border is divided by
/// the number of its pixels in the image.
class AvgPool2d : public WindowPool {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit AvgPool2d(const Pool2dOptions& options = {})
      : WindowPool("AvgPool2d", &Operations::average_pool, options) {}
};

}  // namespace horo::ops

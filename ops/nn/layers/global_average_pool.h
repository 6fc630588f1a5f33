#pragma once

#include "ops/backend/shapes.h"
#include "ops/nn/layers/pool_layer.h"

namespace horo::ops {

/// Returns the shape `input` as images. Throws InvalidArgument unless it has four dimensions.
ImageBatch averaged_images(const Shape& input);

/// The average of every channel of every image: [batch, channels, height, width] to
/// [batch, channels].
class GlobalAveragePool : public PoolLayer {
 public:
  GlobalAveragePool() : PoolLayer("GlobalAveragePool") {}

 private:
  Plan make_plan(const Shape& input) const override;
};

}  // namespace horo::ops

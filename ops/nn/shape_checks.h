#pragma once

#include <string>
#include <string_view>

#include "horo/base/tensor_view.h"
#include "ops/backend/shapes.h"

// Private to ops/nn: shapes of images, and the error text for wrong shapes, which all layers share.

namespace horo::ops {

/// Throws InvalidArgument "LAYER: input has shape GOT; expected EXPECTED" unless `fits` and there
/// is at least one sample.
void require_input(bool fits, std::string_view layer, const Shape& got,
                   const std::string& expected);

/// Throws InvalidArgument unless a training forward() preceded (`is_expected`) and the gradient has
/// the shape of its output.
void require_gradient(bool is_expected, std::string_view layer, const Shape& got,
                      const Shape& output);

/// Conversions between ImageBatch and the shape [batch, channels, height, width].
Shape shape_of(const ImageBatch& images);
ImageBatch images_of(const Shape& shape);

}  // namespace horo::ops

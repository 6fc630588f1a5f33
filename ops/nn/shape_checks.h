#pragma once

#include <string>
#include <string_view>

#include "horo/base/tensor_view.h"
#include "ops/kernels/shapes.h"

// Private to ops/nn: shapes of images, and the one line that a wrong shape gets, the same for every
// layer.

namespace horo::ops {

/// Throws InvalidArgument "LAYER got input SHAPE, wants WANTS" unless `fits` and there is at least
/// one sample.
void require_input(bool fits, std::string_view layer, const Shape& got, const std::string& wants);

/// Throws InvalidArgument unless a training forward() came before (`is_expected`) and the gradient
/// has the shape of its output.
void require_gradient(bool is_expected, std::string_view layer, const Shape& got,
                      const Shape& output);

/// [batch, channels, height, width], and what such a shape says.
Shape shape_of(const ImageBatch& images);
ImageBatch images_of(const Shape& shape);

}  // namespace horo::ops

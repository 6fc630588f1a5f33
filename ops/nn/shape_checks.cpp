#include "ops/nn/shape_checks.h"

#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::ops {

void require_input(bool fits, std::string_view layer, const Shape& got,
                   const std::string& expected) {
  HORO_CHECK(fits && got.count() > 0,
             fmt::format("{}: input has shape {}; expected {}", layer, got.to_string(), expected));
}

// Checks `is_expected` first, because `output` has no meaning without a forward pass.
void require_gradient(bool is_expected, std::string_view layer, const Shape& got,
                      const Shape& output) {
  HORO_CHECK(is_expected,
             fmt::format("{}: backward() requires a training forward() before it", layer));
  HORO_CHECK(got == output, fmt::format("{}: output gradient has shape {}; expected {}", layer,
                                        got.to_string(), output.to_string()));
}

Shape shape_of(const ImageBatch& images) {
  return {images.batch, images.channels, images.height, images.width};
}

ImageBatch images_of(const Shape& shape) { return {shape[0], shape[1], shape[2], shape[3]}; }

}  // namespace horo::ops

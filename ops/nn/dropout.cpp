#include "ops/nn/dropout.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/dropout.h"
#include "ops/kernels/philox.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

Dropout::Dropout(const DropoutOptions& options)
    : options_(options), scale_(1.0f / (1.0f - options.probability)) {
  HORO_CHECK(options.probability >= 0.0f && options.probability < 1.0f,
             fmt::format("Dropout: got probability {}, wants at least 0 and less than 1",
                         options.probability));
}

Tensor Dropout::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  require_input(shape.rank() >= 1, "Dropout", shape, "[batch, ...]");
  if (!pass.training) return input;
  HORO_CHECK(pass.samples.size() == shape[0],
             fmt::format("Dropout got input {} with the global indices of {} samples, wants {}",
                         shape.to_string(), pass.samples.size(), shape[0]));
  kept_.resize(input.count());
  cpu::draw_dropout_mask(mix(pass.seed, pass.step), pass.samples, input.count() / shape[0],
                         options_.probability, kept_);
  cpu::apply_dropout(input.values(), kept_, scale_);
  shape_ = shape;
  return input;
}

Tensor Dropout::backward(Tensor output_gradient, const GradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "Dropout", output_gradient.shape(), shape.value_or(Shape()));
  cpu::apply_dropout(output_gradient.values(), kept_, scale_);
  return output_gradient;
}

}  // namespace horo::ops

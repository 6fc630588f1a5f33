#include "ops/nn/global_average_pool.h"

#include <utility>

#include "ops/kernels/cpu/average_pool.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

ImageBatch averaged_images(const Shape& input) {
  require_input(input.rank() == 4, "GlobalAveragePool", input, "[batch, channels, height, width]");
  return images_of(input);
}

Tensor GlobalAveragePool::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const ImageBatch images = averaged_images(shape);
  Tensor output(Shape{images.batch, images.channels});
  cpu::global_average_pool(input.values(), images.height * images.width, output.values());
  if (pass.training) shape_ = shape;
  return output;
}

Tensor GlobalAveragePool::backward(Tensor output_gradient, const GradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "GlobalAveragePool", output_gradient.shape(),
                   shape ? Shape{(*shape)[0], (*shape)[1]} : Shape());
  Tensor input_gradient(*shape);
  cpu::global_average_pool_backward(output_gradient.values(), (*shape)[2] * (*shape)[3],
                                    input_gradient.values());
  return input_gradient;
}

}  // namespace horo::ops

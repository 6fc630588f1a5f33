#include "ops/nn/global_average_pool.h"

#include <utility>

#include "ops/kernels/cpu/average_pool.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

Tensor GlobalAveragePool::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  require_input(shape.rank() == 4, "GlobalAveragePool", shape, "[batch, channels, height, width]");
  Tensor output(Shape{shape[0], shape[1]});
  cpu::global_average_pool(input.values(), shape[2] * shape[3], output.values());
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

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/pooling.h"
#include "ops/nn/global_average_pool.h"
#include "ops/nn/max_pool2d.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

PoolShape pool_shape(const MaxPool2dOptions& options, const Shape& input) {
  // A stride of 0 means that windows are adjacent and do not overlap.
  const std::size_t stride = options.stride == 0 ? options.kernel : options.stride;
  const Window window{options.kernel, stride, options.padding};
  require_input(
      input.rank() == 4 && window.fits(input[2]) && window.fits(input[3]), "MaxPool2d", input,
      fmt::format("[batch, channels, height, width] of at least {} x {} pixels with padding",
                  window.size, window.size));
  return {images_of(input), window};
}

MaxPool2d::MaxPool2d(const MaxPool2dOptions& options) : options_(options) {
  HORO_CHECK(options.kernel > 0, "MaxPool2d: kernel is 0; must be at least 1");
  // With padding of at most half a window, every window contains a pixel of the image.
  HORO_CHECK(2 * options.padding <= options.kernel,
             fmt::format("MaxPool2d: padding {} exceeds half of kernel {}", options.padding,
                         options.kernel));
}

Tensor MaxPool2d::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const PoolShape pool = pool_shape(options_, shape);
  const auto kernel =
      kernels_.get(shape, [&] { return std::make_shared<cpu::MaxPoolKernel>(pool); });
  Tensor output(shape_of(pool.output()));
  if (!pass.training) {
    kernel->forward_inference(input.data(), output.data());
    return output;
  }
  // The kernel stores the largest pixels of its latest training pass, so backward() must use the
  // same kernel object.
  kernel->forward_training(input.data(), output.data());
  kernel_ = kernel;
  input_shape_ = shape;
  output_shape_ = output.shape();
  return output;
}

// Needs neither input nor output: the kernel has recorded the largest pixels.
Tensor MaxPool2d::backward(Tensor output_gradient, const GradientReady&) {
  const auto kernel = std::exchange(kernel_, nullptr);
  require_gradient(kernel != nullptr, "MaxPool2d", output_gradient.shape(), output_shape_);
  Tensor input_gradient(input_shape_);
  kernel->backward(output_gradient.data(), input_gradient.data());
  return input_gradient;
}

ImageBatch averaged_images(const Shape& input) {
  require_input(input.rank() == 4, "GlobalAveragePool", input, "[batch, channels, height, width]");
  return images_of(input);
}

Tensor GlobalAveragePool::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const ImageBatch images = averaged_images(shape);
  Tensor output(Shape{images.batch, images.channels});
  cpu::global_average_pool(input.values(), images.height * images.width, output.values());
  // The gradient of an average does not depend on the input, so only its shape is stored.
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

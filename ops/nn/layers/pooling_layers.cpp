#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/nn/layers/global_average_pool.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

WindowPool::WindowPool(std::string kind, MakeOperation make, const Pool2dOptions& options)
    : PoolLayer(std::move(kind)), make_(make), options_(options) {
  HORO_CHECK(options.kernel > 0, this->kind() + ": kernel is 0; must be at least 1");
  // With padding of at most half a window, every window contains a pixel of the image.
  HORO_CHECK(2 * options.padding <= options.kernel,
             fmt::format("{}: padding {} exceeds half of kernel {}", this->kind(), options.padding,
                         options.kernel));
}

PoolLayer::Plan WindowPool::make_plan(const Shape& input) const {
  // A stride of 0 means that windows are adjacent and do not overlap.
  const std::size_t stride = options_.stride == 0 ? options_.kernel : options_.stride;
  const Window window{options_.kernel, stride, options_.padding};
  require_input(
      input.rank() == 4 && window.fits(input[2]) && window.fits(input[3]), kind(), input,
      fmt::format("[batch, channels, height, width] of at least {} x {} pixels with padding",
                  window.size, window.size));
  const PoolShape shape{images_of(input), window};
  return {input, shape_of(shape.output()),
          (backend().operations().*make_)(shape, backend().format())};
}

ImageBatch averaged_images(const Shape& input) {
  require_input(input.rank() == 4, "GlobalAveragePool", input, "[batch, channels, height, width]");
  return images_of(input);
}

PoolLayer::Plan GlobalAveragePool::make_plan(const Shape& input) const {
  const ImageBatch images = averaged_images(input);
  return {input,
          {images.batch, images.channels},
          backend().operations().global_average_pool(images, backend().format())};
}

// An operation may store what its backward pass needs, so backward() uses the operation of the
// latest training pass.
Tensor PoolLayer::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const auto plan = plans_.get(shape, [&] { return std::make_shared<Plan>(make_plan(shape)); });
  Tensor output = backend().allocate(plan->output);
  plan->operation->forward(input.raw(), output.raw(), pass.training);
  if (!pass.training) return output;
  plan_ = plan;
  if (plan->operation->reads_forward_arrays()) {
    input_ = std::move(input);
    output_ = output.shared();
  }
  return output;
}

Tensor PoolLayer::backward(Tensor output_gradient, const GradientReady&) {
  const auto plan = std::exchange(plan_, nullptr);
  require_gradient(plan != nullptr, kind_, output_gradient.shape(), plan ? plan->output : Shape());
  const Tensor input = std::exchange(input_, Tensor());
  const Tensor output = std::exchange(output_, Tensor());
  Tensor input_gradient = backend().allocate(plan->input);
  plan->operation->backward(input.raw(), output.raw(), output_gradient.raw(), input_gradient.raw());
  return input_gradient;
}

void PoolLayer::on_move() {
  plans_ = {};
  plan_ = nullptr;
  input_ = Tensor();
  output_ = Tensor();
}

}  // namespace horo::ops

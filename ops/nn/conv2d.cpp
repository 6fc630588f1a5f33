#include "ops/nn/conv2d.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/convolution.h"
#include "ops/nn/initialise.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

ConvolutionShape convolution_shape(const Conv2dOptions& options, const Shape& input) {
  const Window window{options.kernel, options.stride, options.padding};
  require_input(input.rank() == 4 && input[1] == options.in_channels && window.fits(input[2]) &&
                    window.fits(input[3]),
                "Conv2d", input,
                fmt::format("[batch, {}, height, width] of at least {} x {} pixels with padding",
                            options.in_channels, window.size, window.size));
  return {images_of(input), options.out_channels, window, options.bias};
}

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
  HORO_CHECK(
      options.in_channels > 0 && options.out_channels > 0 && options.kernel > 0 &&
          options.stride > 0,
      fmt::format(
          "Conv2d: {} input channels, {} output channels, kernel {}, stride {}; each must be at "
          "least 1",
          options.in_channels, options.out_channels, options.kernel, options.stride));
  weight_ = make_parameter(
      "weight", {options.out_channels, options.in_channels, options.kernel, options.kernel});
  if (options.bias) bias_ = make_parameter("bias", {options.out_channels});
}

Tensor Conv2d::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const ConvolutionShape convolution = convolution_shape(options_, shape);
  const auto kernel =
      kernels_.get(shape, [&] { return std::make_shared<cpu::ConvolutionKernel>(convolution); });
  Tensor output(shape_of(convolution.output()));
  // Without a bias, bias_ is an empty tensor: its address is null, and the kernel ignores it.
  kernel->forward(input.data(), weight_.value.data(), bias_.value.data(), output.data());
  if (pass.training) {
    // The gradient of the weights needs the input. The output is not needed, only its shape.
    kernel_ = kernel;
    input_ = std::move(input);
    output_shape_ = output.shape();
  }
  return output;
}

Tensor Conv2d::backward(Tensor output_gradient, const GradientReady& ready) {
  const auto kernel = std::exchange(kernel_, nullptr);
  require_gradient(kernel != nullptr, "Conv2d", output_gradient.shape(), output_shape_);
  const Tensor input = std::exchange(input_, Tensor());
  // The gradients of the weights come first. Their exchange then overlaps with backward_data(),
  // which computes the gradient of the input.
  kernel->backward_weights(input.data(), output_gradient.data(), weight_.gradient.data(),
                           bias_.gradient.data());
  for (const Parameter* parameter : parameters()) {
    if (ready) ready(*parameter);
  }
  if (!options_.input_gradient) return Tensor();
  Tensor input_gradient(input.shape());
  kernel->backward_data(weight_.value.data(), output_gradient.data(), input_gradient.data());
  return input_gradient;
}

std::vector<Parameter*> Conv2d::parameters() {
  if (!options_.bias) return {&weight_};
  return {&weight_, &bias_};
}

}  // namespace horo::ops

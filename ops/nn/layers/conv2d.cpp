#include "ops/nn/layers/conv2d.h"

#include <fmt/format.h>

#include "horo/base/error.h"
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

namespace {

const Conv2dOptions& checked(const Conv2dOptions& options) {
  HORO_CHECK(
      options.in_channels > 0 && options.out_channels > 0 && options.kernel > 0 &&
          options.stride > 0,
      fmt::format(
          "Conv2d: {} input channels, {} output channels, kernel {}, stride {}; each must be at "
          "least 1",
          options.in_channels, options.out_channels, options.kernel, options.stride));
  return options;
}

}  // namespace

Conv2d::Conv2d(const Conv2dOptions& options)
    : WeightedLayer({.kind = "Conv2d",
                     .weight = {checked(options).out_channels, options.in_channels, options.kernel,
                                options.kernel},
                     .bias = options.bias,
                     .input_gradient = options.input_gradient}),
      options_(options) {}

WeightedLayer::Plan Conv2d::make_plan(const Shape& input) const {
  const ConvolutionShape shape = convolution_shape(options_, input);
  return {shape_of(shape.output()), backend().operations().convolution(shape, backend().format())};
}

}  // namespace horo::ops

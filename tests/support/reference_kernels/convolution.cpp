#include "tests/support/reference_kernels/convolution.h"

#include "tests/support/reference_kernels/images.h"

namespace horo::ops::reference {
namespace {

/// Calls function(output index, input index, weight index) for every product of the convolution.
template <typename Function>
void for_each_product(const ConvolutionShape& shape, Function function) {
  const ImageBatch& input = shape.input;
  const ImageBatch output = shape.output();
  const ImageBatch weights{shape.out_channels, input.channels, shape.window.size,
                           shape.window.size};
  for_each_pixel(output, [&](std::size_t n, std::size_t out, std::size_t row, std::size_t column) {
    for (std::size_t in = 0; in < input.channels; ++in) {
      for_each_under_window(shape.window, input, row, column,
                            [&](std::size_t ky, std::size_t kx, std::size_t y, std::size_t x) {
                              function(pixel(output, n, out, row, column),
                                       pixel(input, n, in, y, x), pixel(weights, out, in, ky, kx));
                            });
    }
  });
}

}  // namespace

Values convolution(const ConvolutionShape& shape, const Values& input, const Values& weights,
                   const Values& bias) {
  const ImageBatch images = shape.output();
  Values output(images.count());
  if (shape.has_bias) {
    for_each_pixel(images, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
      output[pixel(images, n, c, y, x)] = bias[c];
    });
  }
  for_each_product(shape, [&](std::size_t o, std::size_t i, std::size_t w) {
    output[o] += input[i] * weights[w];
  });
  return output;
}

ConvolutionGradients convolution_gradients(const ConvolutionShape& shape, const Values& input,
                                           const Values& weights, const Values& output_gradient) {
  ConvolutionGradients gradients{Values(input.size()), Values(weights.size()),
                                 Values(shape.out_channels)};
  for_each_product(shape, [&](std::size_t o, std::size_t i, std::size_t w) {
    gradients.input[i] += output_gradient[o] * weights[w];
    gradients.weights[w] += output_gradient[o] * input[i];
  });
  const ImageBatch images = shape.output();
  for_each_pixel(images, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    gradients.bias[c] += output_gradient[pixel(images, n, c, y, x)];
  });
  return gradients;
}

}  // namespace horo::ops::reference

#include "tests/support/reference_kernels/batch_norm.h"

#include <cmath>

#include "tests/support/reference_kernels/images.h"

namespace horo::ops::reference {

ChannelStatistics channel_statistics(const ImageBatch& shape, const Values& input) {
  ChannelStatistics statistics{Values(shape.channels), Values(shape.channels)};
  const auto count = static_cast<double>(shape.batch * shape.height * shape.width);
  for_each_pixel(shape, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    statistics.mean[c] += input[pixel(shape, n, c, y, x)] / count;
  });
  for_each_pixel(shape, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    const double distance = input[pixel(shape, n, c, y, x)] - statistics.mean[c];
    statistics.variance[c] += distance * distance / count;
  });
  return statistics;
}

Values batch_norm(const ImageBatch& shape, const Values& input, const Values& scale,
                  const Values& shift, const ChannelStatistics& statistics, double epsilon) {
  Values output(input.size());
  for_each_pixel(shape, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    const std::size_t at = pixel(shape, n, c, y, x);
    const double deviation = std::sqrt(statistics.variance[c] + epsilon);
    output[at] = scale[c] * (input[at] - statistics.mean[c]) / deviation + shift[c];
  });
  return output;
}

BatchNormGradients batch_norm_gradients(const ImageBatch& shape, const Values& input,
                                        const Values& scale, const Values& output_gradient,
                                        double epsilon) {
  const ChannelStatistics statistics = channel_statistics(shape, input);
  const auto count = static_cast<double>(shape.batch * shape.height * shape.width);
  BatchNormGradients gradients{Values(input.size()), Values(shape.channels),
                               Values(shape.channels)};
  const auto deviation = [&](std::size_t c) { return std::sqrt(statistics.variance[c] + epsilon); };
  const auto normalised = [&](std::size_t at, std::size_t c) {
    return (input[at] - statistics.mean[c]) / deviation(c);
  };
  for_each_pixel(shape, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    const std::size_t at = pixel(shape, n, c, y, x);
    gradients.scale[c] += output_gradient[at] * normalised(at, c);
    gradients.shift[c] += output_gradient[at];
  });
  // The mean and the variance depend on every input of the channel, so their shares of the gradient
  // are subtracted.
  for_each_pixel(shape, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    const std::size_t at = pixel(shape, n, c, y, x);
    const double shared = (gradients.shift[c] + normalised(at, c) * gradients.scale[c]) / count;
    gradients.input[at] = scale[c] / deviation(c) * (output_gradient[at] - shared);
  });
  return gradients;
}

}  // namespace horo::ops::reference

#include "ops/kernels/cpu/average_pool.h"

#include <algorithm>

namespace horo::ops::cpu {

void global_average_pool(std::span<const float> input, std::size_t pixels,
                         std::span<float> averages) {
  const auto count = static_cast<double>(pixels);
  for (std::size_t plane = 0; plane < averages.size(); ++plane) {
    double sum = 0;
    for (const float value : input.subspan(plane * pixels, pixels))
      sum += static_cast<double>(value);
    averages[plane] = static_cast<float>(sum / count);
  }
}

void global_average_pool_backward(std::span<const float> gradient, std::size_t pixels,
                                  std::span<float> input_gradient) {
  for (std::size_t plane = 0; plane < gradient.size(); ++plane)
    std::ranges::fill(input_gradient.subspan(plane * pixels, pixels),
                      gradient[plane] / static_cast<float>(pixels));
}

}  // namespace horo::ops::cpu

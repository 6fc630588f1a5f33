#pragma once

#include <cstddef>
#include <span>

namespace horo::ops::cpu {

/// The average of each plane of `pixels` values: `input` holds averages.size() planes one after the
/// other. Sums in the order of memory, so the same input gives the same bits.
void global_average_pool(std::span<const float> input, std::size_t pixels,
                         std::span<float> averages);
/// Overwrites input_gradient: each pixel of a plane gets its share of the average's gradient.
void global_average_pool_backward(std::span<const float> gradient, std::size_t pixels,
                                  std::span<float> input_gradient);

}  // namespace horo::ops::cpu

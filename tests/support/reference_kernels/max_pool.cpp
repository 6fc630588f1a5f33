#include "tests/support/reference_kernels/max_pool.h"

#include <limits>

#include "tests/support/reference_kernels/images.h"

namespace horo::ops::reference {
namespace {

/// Calls function(output index, input index) with the maximum of every window.
template <typename Function>
void for_each_winner(const PoolShape& shape, const Values& input, Function function) {
  const ImageBatch output = shape.output();
  for_each_pixel(output, [&](std::size_t n, std::size_t c, std::size_t row, std::size_t column) {
    double largest = -std::numeric_limits<double>::infinity();
    std::size_t winner = 0;
    for_each_under_window(shape.window, shape.input, row, column,
                          [&](std::size_t, std::size_t, std::size_t y, std::size_t x) {
                            const std::size_t at = pixel(shape.input, n, c, y, x);
                            if (input[at] <= largest) return;
                            largest = input[at];
                            winner = at;
                          });
    function(pixel(output, n, c, row, column), winner);
  });
}

}  // namespace

Values max_pool(const PoolShape& shape, const Values& input) {
  Values output(shape.output().count());
  for_each_winner(shape, input, [&](std::size_t o, std::size_t i) { output[o] = input[i]; });
  return output;
}

Values max_pool_gradient(const PoolShape& shape, const Values& input,
                         const Values& output_gradient) {
  Values gradient(input.size());
  for_each_winner(shape, input,
                  [&](std::size_t o, std::size_t i) { gradient[i] += output_gradient[o]; });
  return gradient;
}

}  // namespace horo::ops::reference

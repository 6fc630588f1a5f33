#include "ops/backend/cpu/embedding.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/base/error.h"
#include "ops/backend/cpu/vector_clones.h"

namespace horo::ops::cpu {
namespace {

/// to += from, rows of `width` values.
HORO_VECTOR_CLONES void add_row(float* to, const float* from, std::size_t width) {
#pragma omp simd
  for (std::size_t c = 0; c < width; ++c) to[c] += from[c];
}

}  // namespace

void embedding_forward(std::span<const std::int32_t> tokens, std::span<const float> table,
                       std::span<const float> positions, std::size_t period, std::size_t width,
                       std::span<float> y) {
  const std::size_t vocabulary = table.size() / width;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    HORO_CHECK(tokens[i] >= 0 && static_cast<std::size_t>(tokens[i]) < vocabulary,
               fmt::format("embedding: position {} of the batch has token {}; expected 0 to {}", i,
                           tokens[i], vocabulary - 1));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    float* const row = y.data() + i * width;
    std::copy_n(table.data() + static_cast<std::size_t>(tokens[i]) * width, width, row);
    if (!positions.empty()) add_row(row, positions.data() + i % period * width, width);
  }
}

void embedding_backward(std::span<const std::int32_t> tokens, std::span<const float> dy,
                        std::size_t period, std::size_t width, std::span<float> table_gradient,
                        std::span<float> position_gradient) {
  std::ranges::fill(table_gradient, 0.0f);
  std::ranges::fill(position_gradient, 0.0f);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float* const row = dy.data() + i * width;
    add_row(table_gradient.data() + static_cast<std::size_t>(tokens[i]) * width, row, width);
    if (!position_gradient.empty())
      add_row(position_gradient.data() + i % period * width, row, width);
  }
}

}  // namespace horo::ops::cpu

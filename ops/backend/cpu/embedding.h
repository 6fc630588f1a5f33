#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::ops::cpu {

/// y[i] = table[tokens[i]], rows of `width` values, plus positions[i % period] if `positions` is
/// not empty. Throws InvalidArgument for a token that is not a row of the table, before anything is
/// written.
void embedding_forward(std::span<const std::int32_t> tokens, std::span<const float> table,
                       std::span<const float> positions, std::size_t period, std::size_t width,
                       std::span<float> y);

/// Overwrites the gradients by the tables: each row is the sum of the rows of dy that used it, in
/// the order of the batch. `position_gradient` may be empty.
void embedding_backward(std::span<const std::int32_t> tokens, std::span<const float> dy,
                        std::size_t period, std::size_t width, std::span<float> table_gradient,
                        std::span<float> position_gradient);

}  // namespace horo::ops::cpu

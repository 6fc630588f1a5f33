#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::ops::cpu {

/// Replaces negative values by zero, in place; NaN stays.
void relu_forward(std::span<float> values);
/// Sets the gradient to zero, in place, where `output`, the result of the forward pass, is zero.
/// Both spans have the same length.
void relu_backward(std::span<float> gradient, std::span<const float> output);

/// a = relu(a + b); NaN stays. Both have the same length.
void add_relu_forward(std::span<float> a, std::span<const float> b);
/// a = relu_backward() of a + b, for the result `output` of the forward pass.
void add_relu_backward(std::span<float> a, std::span<const float> b, std::span<const float> output);

/// Replaces each value x by x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Source: Hendrycks,
/// Gimpel, "Gaussian error linear units" (2016).
void gelu_forward(std::span<float> values);
/// Multiplies each gradient by the derivative at `input`, the input of the forward pass. Both spans
/// have the same length.
void gelu_backward(std::span<float> gradient, std::span<const float> input);

/// sum = a + b; all three have the same length. `sum` may be either of them.
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);

/// Exchanges the rows and columns of matrices: x [batch, rows, columns] to y [batch, columns,
/// rows].
void transpose(std::span<const float> x, std::size_t batch, std::size_t rows, std::size_t columns,
               std::span<float> y);

/// Draws the mask of a batch: kept[s * features + f] is 0 with probability `drop_probability` (in
/// [0, 1)) and 1 otherwise. A sample's row depends only on `key` and on its own entry of `samples`
/// (its global index), not on the rank or the rest of the batch. Length of `kept`: samples.size() *
/// features.
void draw_dropout_mask(std::uint64_t key, std::span<const std::uint64_t> samples,
                       std::size_t features, float drop_probability, std::span<std::uint8_t> kept);

/// values[i] becomes values[i] * factor where kept, 0 elsewhere; in place. Forward and backward are
/// the same operation.
void apply_dropout(std::span<float> values, std::span<const std::uint8_t> kept, float factor);

}  // namespace horo::ops::cpu

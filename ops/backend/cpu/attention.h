#pragma once

#include <span>

#include "ops/backend/shapes.h"

namespace horo::ops::cpu {

/// Causal self-attention; see AttentionShape for `qkv` and `y`. Also writes the probabilities
/// [batch, heads, positions, positions] for the backward pass; those of later positions are zero.
/// Threads compute different heads, so the bits of the results do not depend on their number.
/// Throws horo::Error if oneDNN fails. Source: Vaswani et al., "Attention is all you need" (2017).
void attention_forward(const AttentionShape& shape, std::span<const float> qkv, std::span<float> y,
                       std::span<float> probabilities);

/// Overwrites dqkv, which has the shape of qkv.
void attention_backward(const AttentionShape& shape, std::span<const float> dy,
                        std::span<const float> qkv, std::span<const float> probabilities,
                        std::span<float> dqkv);

}  // namespace horo::ops::cpu

#pragma once

#include <cstddef>

#include "horo/base/float16.h"
#include "horo/device/stream.h"
#include "ops/backend/shapes.h"

// Causal self-attention: in each head, the output of a position is the mean of the values of this
// and of all earlier positions, weighted by the softmax of query * key / sqrt(head_size). T is
// float, Float16 or BFloat16; the computation is in float. Pointers refer to device memory. Nothing
// blocks. Every sum is in a fixed order, so results have the same bits in every run. No array of
// [positions, positions] is stored. Source: Vaswani et al., "Attention is all you need" (2017);
// softmax and gradients by row as in Dao et al., "FlashAttention" (2022).
namespace horo::ops::device_kernels {

inline constexpr std::size_t kMaxHeadSize = 128;

/// Writes y and log_sums [batch, heads, positions], the logarithm of the sum of exponentials of
/// each query, for the backward pass. head_size is at most kMaxHeadSize. One launch; one thread per
/// query, which reads all earlier keys and values. Threads of a warp read the same key at the same
/// time.
template <typename T>
void attention_forward(device::Stream& stream, T* y, float* log_sums, const T* qkv,
                       const AttentionShape& shape);

/// Overwrites dqkv, which has the shape of qkv. `products` [batch, heads, positions] is scratch
/// memory. Two launches: by query and by key. Probabilities are computed again in both.
template <typename T>
void attention_backward(device::Stream& stream, T* dqkv, const T* dy, const T* y, const T* qkv,
                        const float* log_sums, float* products, const AttentionShape& shape);

}  // namespace horo::ops::device_kernels

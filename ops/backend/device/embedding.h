#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/float16.h"
#include "horo/device/stream.h"

// Looks up rows of a table by token. T is float, Float16 or BFloat16. Pointers refer to device
// memory unless stated otherwise. One launch each; does not block.
namespace horo::ops::device_kernels {

struct EmbeddingShape {
  std::size_t tokens, vocabulary, width;
};

/// y[i] = table[token[i]], rows of `width` elements, plus positions[i % period] if `positions` is
/// not null. A token outside [0, vocabulary) gives a row of NaN. Cost: y is written once.
template <typename T>
void embedding_forward(device::Stream& stream, T* y, const T* table, const std::int32_t* tokens,
                       const EmbeddingShape& shape, const T* positions = nullptr,
                       std::size_t period = 1);

/// Overwrites dtable [vocabulary, width]: row t is the sum of the rows of dy [tokens, width] whose
/// token is t, in the order of the batch, and zero for a token without rows. Uses no atomics, so
/// results have the same bits in every run. Cost: dy is read once, dtable is written once, and each
/// row of the table reads all tokens, from the cache. The time depends on the most frequent token,
/// whose rows are added one after the other.
template <typename T>
void embedding_backward(device::Stream& stream, T* dtable, const T* dy, const std::int32_t* tokens,
                        const EmbeddingShape& shape);

/// Overwrites dpositions [positions, width], the gradient of the table that embedding_forward()
/// adds: row p is the sum of rows p, p + period, p + 2 period, ... of dy [rows, width], and zero
/// for p >= period. Cost: dy is read once and dpositions is written once.
template <typename T>
void positions_backward(device::Stream& stream, T* dpositions, std::size_t positions, const T* dy,
                        std::size_t rows, std::size_t period, std::size_t width);

}  // namespace horo::ops::device_kernels

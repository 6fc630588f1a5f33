#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// The uses of one token.
struct TokenUses {
  std::int32_t token;
  std::uint32_t first, last;  ///< in TokenOrder::places
};

/// Which rows of a batch contribute to the gradient of each token; in host memory.
struct TokenOrder {
  std::vector<std::uint32_t> places;  ///< of all tokens in the batch, by token, then by place
  std::vector<TokenUses> uses;        ///< of each token that is used, in ascending order
};

/// Sorts the tokens of a batch, which are in host memory, by counting, in tokens.size() +
/// vocabulary steps. Throws InvalidArgument for a token outside [0, vocabulary).
TokenOrder sort_tokens(std::span<const std::int32_t> tokens, std::size_t vocabulary);

/// Adds to dtable[token] the sum of the rows of dy at the positions of the token, in the order of
/// the positions. Uses no atomics, so results have the same bits in every run. `places` and the
/// `count` elements of `uses` are the result of sort_tokens(). Cost: dy is read once, and the rows
/// of used tokens are read and written once. The time depends on the most frequent token, whose
/// rows are added one after the other.
template <typename T>
void embedding_backward(device::Stream& stream, float* dtable, const T* dy, std::size_t width,
                        const std::uint32_t* places, const TokenUses* uses, std::size_t count);

}  // namespace horo::ops::device_kernels

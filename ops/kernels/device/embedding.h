#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "horo/base/device/stream.h"
#include "horo/base/float16.h"

// Rows of a table by token. T is float, Float16 or BFloat16. Pointers are to memory of the device
// unless said otherwise; one launch each, nothing blocks.
namespace horo::ops::device_kernels {

struct EmbeddingShape {
  std::size_t tokens, vocabulary, width;
};

/// y[i] = table[token[i]], rows of `width`; and + positions[i % period] if that is not null. A
/// token that is not in [0, vocabulary) gives a row of NaN. Cost: y is written once.
template <typename T>
void embedding_forward(device::Stream& stream, T* y, const T* table, const std::int32_t* tokens,
                       const EmbeddingShape& shape, const T* positions = nullptr,
                       std::size_t period = 1);

/// Where a token is used.
struct TokenUses {
  std::int32_t token;
  std::uint32_t first, last;  ///< in TokenOrder::places
};

/// Which rows of a batch each token's gradient is made of, in the host's memory.
struct TokenOrder {
  std::vector<std::uint32_t> places;  ///< of all tokens in the batch, by token, then by place
  std::vector<TokenUses> uses;        ///< of each token that is used, in ascending order
};

/// Sorts a batch's tokens, in the host's memory, where the loader has them: by counting, in
/// tokens.size() + vocabulary steps. Throws InvalidArgument for a token that is not in
/// [0, vocabulary).
TokenOrder sort_tokens(std::span<const std::int32_t> tokens, std::size_t vocabulary);

/// Adds to dtable[token] the sum of dy's rows at the token's places, in the order of those: the
/// same bits every run, without atomics. `places` and the `count` elements of `uses` are what
/// sort_tokens() gave. Cost: dy is read once, rows of used tokens are read and written once; as
/// slow as the most frequent token, whose rows come one after the other.
template <typename T>
void embedding_backward(device::Stream& stream, float* dtable, const T* dy, std::size_t width,
                        const std::uint32_t* places, const TokenUses* uses, std::size_t count);

}  // namespace horo::ops::device_kernels

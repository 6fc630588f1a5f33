#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/nn/sequential.h"

namespace horo::ops {

/// The options of make_gpt().
struct GptOptions {
  std::size_t vocabulary = 0;  ///< required
  std::size_t positions = 64;  ///< the longest sequence
  std::size_t layers = 4;      ///< blocks of attention and perceptron
  std::size_t heads = 4;       ///< of each attention; must divide the width
  std::size_t width = 128;     ///< features of a position
  float dropout = 0.0f;        ///< probability, after the embedding and at the end of each branch
  std::uint64_t seed = 0;      ///< of the initial weights
};

/// A decoder of the GPT-2 architecture, from int32 tokens [batch, positions] to the logits of the
/// next token [batch, positions, vocabulary]; to be trained with CrossEntropy against tokens
/// [batch, positions]. Layers: "embedding" (tokens and positions), "dropout"; per block "block1"
/// with the residual branches "attention" (LayerNorm "norm", CausalAttention "heads") and "mlp"
/// (LayerNorm "norm", Linear "fc" to 4 width, Gelu, Linear "output"), each with a dropout at its
/// end; then LayerNorm "norm" and Linear "head" without a bias. In contrast to GPT-2, the head does
/// not share its weights with the embedding, and attention weights have no dropout.
/// Initial weights are normal with standard deviation 0.02, those of the last Linear of each branch
/// 0.02 / sqrt(2 layers); biases are 0. Source: Radford et al., "Language models are unsupervised
/// multitask learners" (2019).
std::unique_ptr<Sequential> make_gpt(const GptOptions& options);

/// The options of generate_tokens().
struct GenerationOptions {
  std::size_t count = 200;    ///< tokens to add
  std::size_t positions = 0;  ///< required: the longest sequence of the model
  /// Divides the logits: below 1, likely tokens are chosen more often; 0: always the most likely.
  float temperature = 1.0f;
  std::size_t top_k = 0;   ///< choose among the most likely tokens only; 0: among all
  std::uint64_t seed = 1;  ///< of the choices
};

/// Continues `prompt`, which has at least one token, with `model`, which is in host memory and
/// returns logits as make_gpt() does. Each token costs a forward pass over at most
/// options.positions tokens. Returns the new tokens. Throws InvalidArgument for options out of
/// range.
std::vector<std::int32_t> generate_tokens(Layer& model, std::span<const std::int32_t> prompt,
                                          const GenerationOptions& options);

}  // namespace horo::ops

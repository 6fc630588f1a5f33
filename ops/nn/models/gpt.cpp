#include "ops/nn/models/gpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "horo/base/error.h"
#include "ops/backend/philox.h"
#include "ops/nn/initialise.h"
#include "ops/nn/layers/causal_attention.h"
#include "ops/nn/layers/dropout.h"
#include "ops/nn/layers/embedding.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/layer_norm.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/models/residual.h"

namespace horo::ops {
namespace {

constexpr double kDeviation = 0.02;  // of the initial weights

void add_dropout(Sequential& network, float probability) {
  if (probability > 0) network.add("dropout", Dropout({.probability = probability}));
}

Sequential make_block(const GptOptions& options) {
  const std::size_t width = options.width;
  Sequential attention;
  attention.add("norm", LayerNorm({.features = width}))
      .add("heads", CausalAttention({.width = width, .heads = options.heads}));
  add_dropout(attention, options.dropout);
  Sequential mlp;
  mlp.add("norm", LayerNorm({.features = width}))
      .add("fc", Linear({.in_features = width, .out_features = 4 * width}))
      .add("gelu", Gelu())
      .add("output", Linear({.in_features = 4 * width, .out_features = width}));
  add_dropout(mlp, options.dropout);
  Sequential block;
  block.add("attention", Residual(std::move(attention))).add("mlp", Residual(std::move(mlp)));
  return block;
}

// The branches add up along the network. The smaller weights at their ends keep the variance of the
// sum independent of the number of blocks.
void initialise_gpt(Sequential& network, const GptOptions& options) {
  const double at_end = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (Parameter* parameter : network.parameters())
    initialise_normal(*parameter, options.seed,
                      parameter->name.ends_with("output.weight") ? at_end : kDeviation);
}

}  // namespace

std::unique_ptr<Sequential> make_gpt(const GptOptions& options) {
  HORO_CHECK(options.positions > 0 && options.layers > 0,
             fmt::format("make_gpt: {} positions, {} layers; each must be at least 1",
                         options.positions, options.layers));
  auto network = std::make_unique<Sequential>();
  network->add("embedding", Embedding({.vocabulary = options.vocabulary,
                                       .width = options.width,
                                       .positions = options.positions}));
  add_dropout(*network, options.dropout);
  for (std::size_t block = 1; block <= options.layers; ++block)
    network->add(fmt::format("block{}", block), make_block(options));
  network->add("norm", LayerNorm({.features = options.width}));
  network->add(
      "head",
      Linear({.in_features = options.width, .out_features = options.vocabulary, .bias = false}));
  initialise_gpt(*network, options);
  return network;
}

namespace {

/// Chooses a token by the softmax of its logit / temperature, among the `candidates` most likely
/// ones. `uniform` is in [0, 1).
std::int32_t choose(std::span<const float> logits, const GenerationOptions& options,
                    double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // The index decides between equal logits, so that the choice is the same everywhere.
  std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
    const float first = logits[static_cast<std::size_t>(a)];
    const float second = logits[static_cast<std::size_t>(b)];
    return first != second ? first > second : a < b;
  });
  if (options.temperature == 0) return order.front();
  if (options.top_k > 0 && options.top_k < order.size()) order.resize(options.top_k);
  const auto largest = static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
  std::vector<double> sums;  // of the probabilities so far, not normalised
  for (const std::int32_t token : order) {
    const auto logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
    const double weight = std::exp((logit - largest) / static_cast<double>(options.temperature));
    sums.push_back((sums.empty() ? 0 : sums.back()) + weight);
  }
  const auto at = std::ranges::upper_bound(sums, uniform * sums.back());
  const auto last = static_cast<std::ptrdiff_t>(order.size()) - 1;
  return order[static_cast<std::size_t>(std::min(at - sums.begin(), last))];
}

}  // namespace

std::vector<std::int32_t> generate_tokens(Layer& model, std::span<const std::int32_t> prompt,
                                          const GenerationOptions& options) {
  HORO_CHECK(!prompt.empty(), "generation: the prompt is empty; begin with at least one token");
  HORO_CHECK(options.positions > 0, "generation: positions is 0; set it to the model's");
  HORO_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
             fmt::format("generation: temperature is {}; must be at least 0", options.temperature));
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  for (std::size_t step = 0; step < options.count; ++step) {
    const std::size_t length = std::min(tokens.size(), options.positions);
    Tensor input({1, length}, DataType::kInt32);
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end(),
              input.data<std::int32_t>());
    const Tensor logits = model.forward(std::move(input), {});
    const std::size_t vocabulary = logits.count() / length;
    const double uniform = static_cast<double>(philox(options.seed, 0, step)[0]) * 0x1p-32;
    tokens.push_back(choose(logits.values().subspan((length - 1) * vocabulary), options, uniform));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace horo::ops

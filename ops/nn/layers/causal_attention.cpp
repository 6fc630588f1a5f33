#include "ops/nn/layers/causal_attention.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {
namespace {

const CausalAttentionOptions& checked(const CausalAttentionOptions& options) {
  HORO_CHECK(options.width > 0 && options.heads > 0 && options.width % options.heads == 0,
             fmt::format("CausalAttention: width {}, {} heads; the width must be a multiple of the "
                         "number of heads",
                         options.width, options.heads));
  return options;
}

}  // namespace

CausalAttention::CausalAttention(const CausalAttentionOptions& options)
    : options_(checked(options)),
      qkv_({.in_features = options.width, .out_features = 3 * options.width}),
      output_({.in_features = options.width, .out_features = options.width}) {
  for (Parameter* parameter : qkv_.parameters()) parameter->name = "qkv." + parameter->name;
  for (Parameter* parameter : output_.parameters()) parameter->name = "output." + parameter->name;
}

Tensor CausalAttention::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  require_input(shape.rank() == 3 && shape[2] == options_.width, "CausalAttention", shape,
                fmt::format("[batch, positions, {}]", options_.width));
  const AttentionShape heads{shape[0], shape[1], options_.heads, options_.width / options_.heads};
  Tensor projected = qkv_.forward(std::move(input), pass);
  Tensor kept;
  Tensor attended = backend().attention(projected, heads, kept);
  if (pass.training) {
    shape_ = heads;
    projected_ = std::move(projected);
    attended_ = attended.shared();
    kept_ = std::move(kept);
  }
  return output_.forward(std::move(attended), pass);
}

Tensor CausalAttention::backward(Tensor output_gradient, const GradientReady& ready) {
  const Tensor projected = std::exchange(projected_, Tensor());
  const Tensor attended = std::exchange(attended_, Tensor());
  require_gradient(projected.count() > 0, "CausalAttention", output_gradient.shape(),
                   attended.shape());
  const Tensor kept = std::exchange(kept_, Tensor());
  const Tensor gradient = output_.backward(std::move(output_gradient), ready);
  return qkv_.backward(backend().attention_backward(gradient, attended, projected, shape_, kept),
                       ready);
}

void CausalAttention::on_move() {
  projected_ = Tensor();
  attended_ = Tensor();
  kept_ = Tensor();
}

}  // namespace horo::ops

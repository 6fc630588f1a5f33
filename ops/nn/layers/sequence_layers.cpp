#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/nn/initialise.h"
#include "ops/nn/layers/embedding.h"
#include "ops/nn/layers/layer_norm.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

LayerNorm::LayerNorm(const LayerNormOptions& options)
    : options_(options),
      weight_(make_parameter("weight", {options.features})),
      bias_(make_parameter("bias", {options.features})) {
  HORO_CHECK(options.features > 0, "LayerNorm: features is 0; must be at least 1");
  weight_.is_always_float32 = bias_.is_always_float32 = true;
  weight_.value.fill(1.0f);
}

Tensor LayerNorm::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  require_input(shape.rank() >= 2 && shape[shape.rank() - 1] == options_.features, "LayerNorm",
                shape, fmt::format("[batch, ..., {}]", options_.features));
  Tensor statistics;
  Tensor output =
      backend().layer_norm(input, weight_.value, bias_.value, options_.epsilon, statistics);
  if (pass.training) {
    input_ = std::move(input);
    statistics_ = std::move(statistics);
  }
  return output;
}

Tensor LayerNorm::backward(Tensor output_gradient, const GradientReady& ready) {
  const Tensor input = std::exchange(input_, Tensor());
  require_gradient(input.count() > 0, "LayerNorm", output_gradient.shape(), input.shape());
  const Tensor statistics = std::exchange(statistics_, Tensor());
  Tensor input_gradient =
      backend().layer_norm_backward(std::move(output_gradient), input, weight_.value, statistics,
                                    weight_.gradient, bias_.gradient);
  report(parameters(), ready);
  return input_gradient;
}

void LayerNorm::on_move() {
  input_ = Tensor();
  statistics_ = Tensor();
}

Embedding::Embedding(const EmbeddingOptions& options)
    : options_(options), weight_(make_parameter("weight", {options.vocabulary, options.width})) {
  HORO_CHECK(options.vocabulary > 0 && options.width > 0,
             fmt::format("Embedding: vocabulary {}, width {}; each must be at least 1",
                         options.vocabulary, options.width));
  if (options.positions > 0)
    position_weight_ = make_parameter("position_weight", {options.positions, options.width});
}

Tensor Embedding::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const std::size_t longest = options_.positions;
  require_input(shape.rank() >= 2 && (longest == 0 || shape[shape.rank() - 1] <= longest),
                "Embedding", shape,
                longest == 0 ? "tokens [batch, ..., positions]"
                             : fmt::format("tokens [batch, ..., at most {} positions]", longest));
  HORO_CHECK(input.type() == DataType::kInt32,
             fmt::format("Embedding: input has type {}; expected tokens of type int32",
                         name_of(input.type())));
  Tensor output = backend().embedding(input, weight_.computed(), position_weight_.computed());
  if (pass.training) tokens_ = std::move(input);
  return output;
}

Tensor Embedding::backward(Tensor output_gradient, const GradientReady& ready) {
  const Tensor tokens = std::exchange(tokens_, Tensor());
  std::vector<std::size_t> expected = tokens.shape().dimensions();
  expected.push_back(options_.width);
  require_gradient(tokens.count() > 0, "Embedding", output_gradient.shape(),
                   Shape(std::move(expected)));
  backend().embedding_backward(output_gradient, tokens, weight_.gradient,
                               position_weight_.gradient);
  report(parameters(), ready);
  return Tensor();
}

std::vector<Parameter*> Embedding::parameters() {
  if (options_.positions == 0) return {&weight_};
  return {&weight_, &position_weight_};
}

}  // namespace horo::ops

#include "ops/nn/fusion/stage_walk.h"

#include <cstddef>

#include "ops/backend/philox.h"

namespace horo::ops {

Pass pass_of(const Stage& stage, const Pass& pass) {
  Pass own = pass;
  if (!stage.is_group) own.seed = mix(pass.seed, stage.name_hash);
  return own;
}

Tensor forward_through(const std::vector<Stage>& stages, Tensor input, const Pass& pass) {
  for (const Stage& stage : stages)
    input =
        naming(stage, [&] { return stage.layer->forward(std::move(input), pass_of(stage, pass)); });
  return input;
}

namespace {

void check_nothing_to_train_before(const std::vector<Stage>& stages, std::size_t index) {
  for (std::size_t before = 0; before < index; ++before) {
    HORO_CHECK(stages[before].layer->parameters().empty(),
               fmt::format("layer '{}' was built without an input gradient, but layer '{}' before "
                           "it needs one",
                           stages[index].name, stages[before].name));
  }
}

}  // namespace

Tensor backward_through(const std::vector<Stage>& stages, Tensor output_gradient,
                        const GradientReady& ready) {
  for (std::size_t index = stages.size(); index-- > 0;) {
    const Stage& stage = stages[index];
    output_gradient =
        naming(stage, [&] { return stage.layer->backward(std::move(output_gradient), ready); });
    if (output_gradient.count() == 0) {
      check_nothing_to_train_before(stages, index);
      break;
    }
  }
  return output_gradient;
}

}  // namespace horo::ops

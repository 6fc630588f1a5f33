#include "ops/nn/batch_norm.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/batch_norm.h"
#include "ops/nn/initialise.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

BatchNorm::BatchNorm(const BatchNormOptions& options)
    : options_(options),
      weight_(make_parameter("weight", {options.channels})),
      bias_(make_parameter("bias", {options.channels})),
      running_mean_{"running_mean", Tensor::zeros({options.channels}), Tensor()},
      running_variance_{"running_variance", Tensor::zeros({options.channels}), Tensor()},
      mean_(Shape{options.channels}),
      variance_(Shape{options.channels}) {
  HORO_CHECK(options.channels > 0, "BatchNorm: got 0 channels, wants at least 1");
  weight_.value.fill(1.0f);
  running_variance_.value.fill(1.0f);
}

Tensor BatchNorm::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const std::size_t channels = options_.channels;
  require_input((shape.rank() == 2 || shape.rank() == 4) && shape[1] == channels, "BatchNorm",
                shape, fmt::format("[batch, {0}] or [batch, {0}, height, width]", channels));
  const auto kernel = kernels_.get(shape, [&] {
    const bool is_flat = shape.rank() == 2;
    const ImageBatch images{shape[0], channels, is_flat ? 1 : shape[2], is_flat ? 1 : shape[3]};
    return std::make_shared<cpu::BatchNormKernel>(images, options_.epsilon);
  });
  Tensor output(shape);
  if (!pass.training) {
    kernel->forward_inference(input.data(), weight_.value.data(), bias_.value.data(),
                              running_mean_.value.data(), running_variance_.value.data(),
                              output.data());
    return output;
  }
  const std::size_t values_per_channel = input.count() / channels;
  require_input(values_per_channel >= 2, "BatchNorm", shape,
                "at least two values per channel when training");
  kernel->forward_training(input.data(), weight_.value.data(), bias_.value.data(), output.data(),
                           mean_.data(), variance_.data());
  update_running_statistics(values_per_channel);
  kernel_ = kernel;
  input_ = std::move(input);
  return output;
}

void BatchNorm::update_running_statistics(std::size_t values_per_channel) {
  const float share = options_.momentum;
  const auto count = static_cast<float>(values_per_channel);
  const float unbiased = count / (count - 1.0f);
  const auto running_mean = running_mean_.value.values();
  const auto running_variance = running_variance_.value.values();
  for (std::size_t c = 0; c < options_.channels; ++c) {
    running_mean[c] += share * (mean_.values()[c] - running_mean[c]);
    running_variance[c] += share * (variance_.values()[c] * unbiased - running_variance[c]);
  }
}

Tensor BatchNorm::backward(Tensor output_gradient, const GradientReady& ready) {
  const auto kernel = std::exchange(kernel_, nullptr);
  require_gradient(kernel != nullptr, "BatchNorm", output_gradient.shape(), input_.shape());
  const Tensor input = std::exchange(input_, Tensor());
  Tensor input_gradient(input.shape());
  kernel->backward(input.data(), output_gradient.data(), weight_.value.data(), mean_.data(),
                   variance_.data(), input_gradient.data(), weight_.gradient.data(),
                   bias_.gradient.data());
  for (const Parameter* parameter : parameters()) {
    if (ready) ready(*parameter);
  }
  return input_gradient;
}

}  // namespace horo::ops

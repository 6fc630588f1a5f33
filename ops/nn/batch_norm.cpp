#include "ops/nn/batch_norm.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/cpu/batch_norm.h"
#include "ops/nn/initialise.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

// Vectors [batch, channels] are images of one pixel, so one kernel handles both shapes. Training
// needs two values per channel, because the unbiased variance divides by their number minus 1.
ImageBatch normalised_images(const BatchNormOptions& options, const Shape& input, bool training) {
  const std::size_t channels = options.channels;
  const bool is_flat = input.rank() == 2;
  require_input((is_flat || input.rank() == 4) && input[1] == channels, "BatchNorm", input,
                fmt::format("[batch, {0}] or [batch, {0}, height, width]", channels));
  require_input(!training || input.count() / channels >= 2, "BatchNorm", input,
                "at least two values per channel when training");
  return is_flat ? ImageBatch{input[0], channels, 1, 1} : images_of(input);
}

BatchNorm::BatchNorm(const BatchNormOptions& options)
    : options_(options),
      weight_(make_parameter("weight", {options.channels})),
      bias_(make_parameter("bias", {options.channels})),
      running_mean_{"running_mean", Tensor::zeros({options.channels}), Tensor()},
      running_variance_{"running_variance", Tensor::zeros({options.channels}), Tensor()},
      mean_(Shape{options.channels}),
      variance_(Shape{options.channels}) {
  HORO_CHECK(options.channels > 0, "BatchNorm: channels is 0; must be at least 1");
  // make_parameter() has set one-dimensional parameters to zero, which is correct for the shift
  // only.
  weight_.value.fill(1.0f);
  running_variance_.value.fill(1.0f);
}

Tensor BatchNorm::forward(Tensor input, const Pass& pass) {
  const Shape& shape = input.shape();
  const ImageBatch images = normalised_images(options_, shape, pass.training);
  const auto kernel = kernels_.get(
      shape, [&] { return std::make_shared<cpu::BatchNormKernel>(images, options_.epsilon); });
  Tensor output(shape);
  if (!pass.training) {
    kernel->forward_inference(input.data(), weight_.value.data(), bias_.value.data(),
                              running_mean_.value.data(), running_variance_.value.data(),
                              output.data());
    return output;
  }
  kernel->forward_training(input.data(), weight_.value.data(), bias_.value.data(), output.data(),
                           mean_.data(), variance_.data());
  update_running_statistics(input.count() / options_.channels);
  // The shared pointer keeps the kernel of this shape alive until backward(), even if the cache
  // drops it meanwhile.
  kernel_ = kernel;
  input_ = std::move(input);
  return output;
}

void BatchNorm::update_running_statistics(std::size_t values_per_channel) {
  const float share = options_.momentum;
  // The batch is normalised with the biased variance, but the running variance is the unbiased
  // estimate, as in PyTorch. normalised_images() guarantees at least two values.
  const auto count = static_cast<float>(values_per_channel);
  const float unbiased = count / (count - 1.0f);
  const auto running_mean = running_mean_.value.values();
  const auto running_variance = running_variance_.value.values();
  for (std::size_t c = 0; c < options_.channels; ++c) {
    running_mean[c] += share * (mean_.values()[c] - running_mean[c]);
    running_variance[c] += share * (variance_.values()[c] * unbiased - running_variance[c]);
  }
}

// Uses the input, and the mean and variance of the batch. The normalised values are computed again
// from these and not stored.
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

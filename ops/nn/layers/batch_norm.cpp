#include "ops/nn/layers/batch_norm.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/backend/device/norm/batch_sums.h"
#include "ops/nn/initialise.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

using device_kernels::ChannelMoments;

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
      running_variance_{"running_variance", Tensor::zeros({options.channels}), Tensor()} {
  HORO_CHECK(options.channels > 0, "BatchNorm: channels is 0; must be at least 1");
  weight_.is_always_float32 = bias_.is_always_float32 = true;
  // make_parameter() has set one-dimensional parameters to zero, which is correct for the shift
  // only.
  weight_.value.fill(1.0f);
  running_variance_.value.fill(1.0f);
  BatchNorm::on_move();
}

// mean_ and deviation_ are allocated once. Consecutive steps may share them because all work of a
// device is on one stream.
void BatchNorm::on_move() {
  operations_ = {};
  operation_ = nullptr;
  input_ = Tensor();
  mean_ = backend().allocate({options_.channels}, DataType::kFloat32);
  deviation_ = backend().allocate({options_.channels}, DataType::kFloat32);
  sums_ = Tensor();
  variance_ = Tensor();
}

Tensor BatchNorm::forward(Tensor input, const Pass& pass) {
  return normalise(std::move(input), {}, false, pass);
}

Tensor BatchNorm::forward_relu(Tensor input, const Tensor& addend, const Pass& pass) {
  return normalise(std::move(input), addend, true, pass);
}

Tensor BatchNorm::backward(Tensor output_gradient, const GradientReady& ready) {
  return backward_through(std::move(output_gradient), {}, ready);
}

Tensor BatchNorm::backward_relu(Tensor output_gradient, const Tensor& output,
                                const GradientReady& ready) {
  return backward_through(std::move(output_gradient), output, ready);
}

Tensor BatchNorm::normalise(Tensor input, const Tensor& addend, bool has_relu, const Pass& pass) {
  const Shape& shape = input.shape();
  const ImageBatch images = normalised_images(options_, shape, pass.training);
  const auto operation = operations_.get(shape, [&] {
    return std::shared_ptr(
        backend().operations().batch_norm(images, options_.epsilon, backend().format()));
  });
  const bool is_fused = has_relu && operation->can_fuse();
  Tensor output = backend().allocate(shape);
  if (pass.training) {
    const BatchNormTraining arrays{.input = input.raw(),
                                   .scale = weight_.value.data(),
                                   .shift = bias_.value.data(),
                                   .output = output.raw(),
                                   .running_mean = running_mean_.value.data(),
                                   .running_variance = running_variance_.value.data(),
                                   .momentum = static_cast<double>(options_.momentum),
                                   .mean = mean_.data(),
                                   .inverse_deviation = deviation_.data(),
                                   .addend = is_fused ? addend.raw() : nullptr,
                                   .has_relu = is_fused};
    if (sum_over_ranks_)
      forward_over_ranks(*operation, images, arrays);
    else
      operation->forward_training(arrays);
    // The shared pointer keeps the operation of this shape alive until backward(), even if the
    // cache drops it meanwhile.
    operation_ = operation;
    input_ = std::move(input);
  } else {
    operation->forward_inference({.input = input.raw(),
                                  .scale = weight_.value.data(),
                                  .shift = bias_.value.data(),
                                  .mean = running_mean_.value.data(),
                                  .variance = running_variance_.value.data(),
                                  .output = output.raw(),
                                  .addend = is_fused ? addend.raw() : nullptr,
                                  .has_relu = is_fused});
  }
  if (!has_relu || is_fused) return output;
  if (addend.count() > 0) return backend().add_relu(std::move(output), addend);
  return backend().relu(std::move(output));
}

// Uses the input and the statistics of the batch. The normalised values are computed again from
// these and not stored.
Tensor BatchNorm::backward_through(Tensor output_gradient, const Tensor& output,
                                   const GradientReady& ready) {
  const auto operation = std::exchange(operation_, nullptr);
  require_gradient(operation != nullptr, "BatchNorm", output_gradient.shape(), input_.shape());
  const Tensor input = std::exchange(input_, Tensor());
  const bool is_fused = output.count() > 0 && operation->can_fuse();
  if (output.count() > 0 && !is_fused)
    output_gradient = backend().relu_backward(std::move(output_gradient), output);
  Tensor input_gradient = backend().allocate(input.shape());
  operation->backward({.input = input.raw(),
                       .output_gradient = output_gradient.raw(),
                       .scale = weight_.value.data(),
                       .mean = mean_.data(),
                       .inverse_deviation = deviation_.data(),
                       .input_gradient = input_gradient.raw(),
                       .scale_gradient = weight_.gradient.data(),
                       .shift_gradient = bias_.gradient.data(),
                       .output = is_fused ? output.raw() : nullptr});
  if (sum_over_ranks_) input_gradient = corrected(*operation, input, std::move(input_gradient));
  report(parameters(), ready);
  return input_gradient;
}

// The statistics of this rank come from a forward_training() whose output is overwritten and whose
// running statistics do not change.
void BatchNorm::forward_over_ranks(BatchNormOperation& operation, const ImageBatch& images,
                                   const BatchNormTraining& arrays) {
  const std::size_t channels = options_.channels;
  device::Stream* const stream = backend().device_stream();
  const ChannelMoments moments{mean_.data(), deviation_.data()};
  sums_ = backend().allocate({2 * channels + 1}, DataType::kFloat64);
  variance_ = backend().allocate({channels}, DataType::kFloat32);
  BatchNormTraining of_rank = arrays;
  of_rank.momentum = 0;
  operation.forward_training(of_rank);
  device_kernels::moments_to_sums(stream, sums_.data<double>(), moments, channels,
                                  images.count() / channels, options_.epsilon);
  sum_over_ranks_(weight_.name + ".statistics", sums_);
  device_kernels::sums_to_moments(stream, sums_.data<double>(), moments, variance_.data(),
                                  arrays.running_mean, arrays.running_variance, channels,
                                  options_.momentum, options_.epsilon);
  operation.forward_inference({.input = arrays.input,
                               .scale = arrays.scale,
                               .shift = arrays.shift,
                               .mean = mean_.data(),
                               .variance = variance_.data(),
                               .output = arrays.output,
                               .addend = arrays.addend,
                               .has_relu = arrays.has_relu});
}

// The correction is linear in the normalised input, so another normalisation of the input computes
// it.
Tensor BatchNorm::corrected(BatchNormOperation& operation, const Tensor& input,
                            Tensor input_gradient) {
  const std::size_t channels = options_.channels;
  device::Stream* const stream = backend().device_stream();
  Tensor totals = backend().allocate({2 * channels}, DataType::kFloat64);
  Tensor factor = backend().allocate({channels}, DataType::kFloat32);
  Tensor offset = backend().allocate({channels}, DataType::kFloat32);
  device_kernels::join_as_double(stream, totals.data<double>(), weight_.gradient.data(),
                                 bias_.gradient.data(), channels);
  sum_over_ranks_(weight_.name + ".gradients", totals);
  device_kernels::gradient_correction(stream, factor.data(), offset.data(), weight_.gradient.data(),
                                      bias_.gradient.data(), totals.data<double>(),
                                      sums_.data<double>() + 2 * channels, weight_.value.data(),
                                      deviation_.data(), channels, input.count() / channels);
  Tensor correction = backend().allocate(input.shape());
  operation.forward_inference({.input = input.raw(),
                               .scale = factor.data(),
                               .shift = offset.data(),
                               .mean = mean_.data(),
                               .variance = variance_.data(),
                               .output = correction.raw()});
  return backend().add(std::move(input_gradient), correction);
}

}  // namespace horo::ops

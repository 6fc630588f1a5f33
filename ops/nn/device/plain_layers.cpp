#include "ops/nn/device/plain_layers.h"

#include <utility>

#include "horo/base/error.h"
#include "ops/kernels/philox.h"
#include "ops/nn/device/device_parameters.h"
#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/flatten.h"
#include "ops/nn/global_average_pool.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

// mean_ and inverse_deviation_ are allocated once. Consecutive steps may share them because all
// work is on one stream.
DeviceBatchNorm::DeviceBatchNorm(const BatchNormOptions& options, DeviceCompute& compute)
    : options_(options),
      compute_(compute),
      weight_(make_device_parameter(compute, {options.channels}, DataType::kFloat32)),
      bias_(make_device_parameter(compute, {options.channels}, DataType::kFloat32)),
      running_mean_(make_device_buffer(compute, {options.channels})),
      running_variance_(make_device_buffer(compute, {options.channels})),
      mean_(compute.allocate({options.channels}, DataType::kFloat32)),
      inverse_deviation_(compute.allocate({options.channels}, DataType::kFloat32)) {}

Tensor DeviceBatchNorm::forward(Tensor input, const DevicePass& pass) {
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  const ImageBatch images = normalised_images(options_, shape, pass.training);
  const auto operation = operations_.get(shape, [&] {
    return std::shared_ptr(compute_.math().batch_norm(images, options_.epsilon, compute_.format()));
  });
  Tensor output = compute_.allocate(input.shape());
  if (!pass.training) {
    operation->forward_inference({.input = input.raw(),
                                  .scale = weight_.value.data(),
                                  .shift = bias_.value.data(),
                                  .mean = running_mean_.value.data(),
                                  .variance = running_variance_.value.data(),
                                  .output = output.raw()});
    return output;
  }
  operation->forward_training({.input = input.raw(),
                               .scale = weight_.value.data(),
                               .shift = bias_.value.data(),
                               .output = output.raw(),
                               .running_mean = running_mean_.value.data(),
                               .running_variance = running_variance_.value.data(),
                               .momentum = static_cast<double>(options_.momentum),
                               .mean = mean_.data(),
                               .inverse_deviation = inverse_deviation_.data()});
  // backward() uses the statistics of this batch in mean_ and inverse_deviation_, which the next
  // training forward overwrites.
  operation_ = operation;
  input_ = std::move(input);
  return output;
}

Tensor DeviceBatchNorm::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  const auto operation = std::exchange(operation_, nullptr);
  require_gradient(operation != nullptr, "BatchNorm",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   to_host_order(input_.shape(), compute_.layout()));
  const Tensor input = std::exchange(input_, Tensor());
  Tensor input_gradient = compute_.allocate(input.shape());
  operation->backward({.input = input.raw(),
                       .output_gradient = output_gradient.raw(),
                       .scale = weight_.value.data(),
                       .mean = mean_.data(),
                       .inverse_deviation = inverse_deviation_.data(),
                       .input_gradient = input_gradient.raw(),
                       .scale_gradient = weight_.gradient.data(),
                       .shift_gradient = bias_.gradient.data()});
  report(parameters(), ready);
  return input_gradient;
}

// Keeps the output, whose sign determines the derivative. The next layer usually keeps the same
// memory as its input, so this costs no additional memory.
Tensor DeviceRelu::forward(Tensor input, const DevicePass& pass) {
  Tensor output = relu(compute_, input);
  if (pass.training) output_ = output.shared();
  return output;
}

Tensor DeviceRelu::backward(Tensor output_gradient, const DeviceGradientReady&) {
  const Tensor output = std::exchange(output_, Tensor());
  require_gradient(output.count() > 0, "Relu",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   to_host_order(output.shape(), compute_.layout()));
  return relu_backward(compute_, output_gradient, output);
}

// Keeps the input: the derivative of GELU cannot be computed from its output, because GELU is not
// monotonic.
Tensor DeviceGelu::forward(Tensor input, const DevicePass& pass) {
  Tensor output = gelu(compute_, input);
  if (pass.training) input_ = std::move(input);
  return output;
}

Tensor DeviceGelu::backward(Tensor output_gradient, const DeviceGradientReady&) {
  const Tensor input = std::exchange(input_, Tensor());
  require_gradient(input.count() > 0, "Gelu",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   to_host_order(input.shape(), compute_.layout()));
  return gelu_backward(compute_, output_gradient, input);
}

// Keeps the key and the address of the sample indices, from which backward() draws the same mask.
// The mask is not stored.
Tensor DeviceDropout::forward(Tensor input, const DevicePass& pass) {
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  require_input(shape.rank() >= 1, "Dropout", shape, "[batch, ...]");
  if (!pass.training) return input;
  HORO_CHECK(pass.samples != nullptr,
             "Dropout: pass.samples is null; training requires the global sample indices");
  choice_ = {shape, mix(pass.seed, pass.step), pass.samples};
  return apply(std::move(input), *choice_);
}

Tensor DeviceDropout::backward(Tensor output_gradient, const DeviceGradientReady&) {
  const std::optional<Choice> choice = std::exchange(choice_, std::nullopt);
  require_gradient(choice.has_value(), "Dropout",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   choice ? choice->shape : Shape());
  return apply(std::move(output_gradient), *choice);
}

Tensor DeviceDropout::apply(Tensor x, const Choice& choice) {
  // The mask is drawn in the feature order of the host, so that host and device drop the same
  // values.
  const Tensor ordered = in_host_order(compute_, std::move(x), compute_.type());
  Tensor y = dropout(compute_, ordered,
                     {.key = choice.key,
                      .samples = choice.samples,
                      .drop_probability = options_.probability,
                      .factor = 1.0f / (1.0f - options_.probability)});
  return in_device_order(compute_, std::move(y), compute_.type());
}

// The features get the order of the host in every layout, so that a Linear after this has the same
// weights on host and device.
Tensor DeviceFlatten::forward(Tensor input, const DevicePass& pass) {
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  const Shape flat = flattened(shape);
  if (pass.training) shape_ = shape;
  return in_host_order(compute_, std::move(input), compute_.type()).reshaped(flat);
}

Tensor DeviceFlatten::backward(Tensor output_gradient, const DeviceGradientReady&) {
  const std::optional<Shape> shape = std::exchange(shape_, std::nullopt);
  require_gradient(shape.has_value(), "Flatten", output_gradient.shape(),
                   shape ? flattened(*shape) : Shape());
  return in_device_order(compute_, std::move(output_gradient).reshaped(*shape), compute_.type());
}

DevicePool::DevicePool(std::string kind, MakePlan make_plan, DeviceCompute& compute)
    : kind_(std::move(kind)), make_plan_(std::move(make_plan)), compute_(compute) {}

// The backward pass of cuDNN reads the input and the output, so both are kept.
Tensor DevicePool::forward(Tensor input, const DevicePass& pass) {
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  const auto plan = plans_.get(shape, [&] { return std::make_shared<Plan>(make_plan_(shape)); });
  Tensor output = compute_.allocate(to_device_order(plan->output, compute_.layout()));
  plan->operation->forward(input.raw(), output.raw());
  if (pass.training) {
    plan_ = plan;
    input_ = std::move(input);
    output_ = output.shared();
  }
  return output;
}

Tensor DevicePool::backward(Tensor output_gradient, const DeviceGradientReady&) {
  const auto plan = std::exchange(plan_, nullptr);
  require_gradient(plan != nullptr, kind_,
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   plan ? plan->output : Shape());
  const Tensor input = std::exchange(input_, Tensor());
  const Tensor output = std::exchange(output_, Tensor());
  Tensor input_gradient = compute_.allocate(input.shape());
  plan->operation->backward(input.raw(), output.raw(), output_gradient.raw(), input_gradient.raw());
  return input_gradient;
}

std::unique_ptr<DeviceLayer> make_device_max_pool2d(const MaxPool2dOptions& options,
                                                    DeviceCompute& compute) {
  const auto plan = [options, &compute](const Shape& input) {
    const PoolShape shape = pool_shape(options, input);
    return DevicePool::Plan{shape_of(shape.output()),
                            compute.math().max_pool(shape, compute.format())};
  };
  return std::make_unique<DevicePool>("MaxPool2d", plan, compute);
}

std::unique_ptr<DeviceLayer> make_device_global_average_pool(DeviceCompute& compute) {
  const auto plan = [&compute](const Shape& input) {
    const ImageBatch images = averaged_images(input);
    return DevicePool::Plan{{images.batch, images.channels},
                            compute.math().average_pool(images, compute.format())};
  };
  return std::make_unique<DevicePool>("GlobalAveragePool", plan, compute);
}

}  // namespace horo::ops

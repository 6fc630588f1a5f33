#include "ops/nn/device/device_batch_norm.h"

#include <utility>

#include "ops/nn/device/device_parameters.h"
#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

DeviceBatchNorm::DeviceBatchNorm(const BatchNormOptions& options, DeviceCompute& compute)
    : options_(options),
      compute_(compute),
      weight_(make_device_parameter(compute, {options.channels}, DataType::kFloat32)),
      bias_(make_device_parameter(compute, {options.channels}, DataType::kFloat32)),
      running_mean_(make_device_buffer(compute, {options.channels})),
      running_variance_(make_device_buffer(compute, {options.channels})),
      mean_(compute.allocate({options.channels}, DataType::kFloat32)),
      inverse_deviation_(compute.allocate({options.channels}, DataType::kFloat32)) {}

DeviceTensor DeviceBatchNorm::forward(DeviceTensor input, const DevicePass& pass) {
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  const ImageBatch images = normalised_images(options_, shape, pass.training);
  const auto operation = operations_.get(shape, [&] {
    return std::shared_ptr(compute_.math().batch_norm(images, options_.epsilon, compute_.format()));
  });
  DeviceTensor output = compute_.allocate(input.shape());
  if (!pass.training) {
    operation->forward_inference({.input = input.data(),
                                  .scale = floats(weight_.value),
                                  .shift = floats(bias_.value),
                                  .mean = floats(running_mean_.value),
                                  .variance = floats(running_variance_.value),
                                  .output = output.data()});
    return output;
  }
  operation->forward_training({.input = input.data(),
                               .scale = floats(weight_.value),
                               .shift = floats(bias_.value),
                               .output = output.data(),
                               .running_mean = floats(running_mean_.value),
                               .running_variance = floats(running_variance_.value),
                               .momentum = static_cast<double>(options_.momentum),
                               .mean = floats(mean_),
                               .inverse_deviation = floats(inverse_deviation_)});
  operation_ = operation;
  input_ = std::move(input);
  return output;
}

DeviceTensor DeviceBatchNorm::backward(DeviceTensor output_gradient,
                                       const DeviceGradientReady& ready) {
  const auto operation = std::exchange(operation_, nullptr);
  require_gradient(operation != nullptr, "BatchNorm",
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   to_host_order(input_.shape(), compute_.layout()));
  const DeviceTensor input = std::exchange(input_, DeviceTensor());
  DeviceTensor input_gradient = compute_.allocate(input.shape());
  operation->backward({.input = input.data(),
                       .output_gradient = output_gradient.data(),
                       .scale = floats(weight_.value),
                       .mean = floats(mean_),
                       .inverse_deviation = floats(inverse_deviation_),
                       .input_gradient = input_gradient.data(),
                       .scale_gradient = floats(weight_.gradient),
                       .shift_gradient = floats(bias_.gradient)});
  report(parameters(), ready);
  return input_gradient;
}

}  // namespace horo::ops

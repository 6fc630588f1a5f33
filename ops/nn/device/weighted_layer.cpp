#include "ops/nn/device/weighted_layer.h"

#include <utility>

#include "ops/nn/device/device_parameters.h"
#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

WeightedLayer::WeightedLayer(Options options, DeviceCompute& compute)
    : options_(std::move(options)),
      compute_(compute),
      weight_(make_device_parameter(compute, options_.weight, compute.type())) {
  if (options_.bias) bias_ = make_device_parameter(compute, {options_.weight[0]}, compute.type());
}

Tensor WeightedLayer::forward(Tensor input, const DevicePass& pass) {
  // Plans are cached by the host shape, which does not depend on the layout of the device.
  const Shape shape = to_host_order(input.shape(), compute_.layout());
  const auto plan = plans_.get(shape, [&] { return std::make_shared<Plan>(options_.plan(shape)); });
  Tensor output = compute_.allocate(to_device_order(plan->output, compute_.layout()));
  plan->operation->forward(input.raw(), computed(weight_).raw(), computed(bias_).raw(),
                           output.raw());
  if (pass.training) {
    plan_ = plan;
    // The gradient of the weights needs the input.
    input_ = std::move(input);
  }
  return output;
}

Tensor WeightedLayer::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  const auto plan = std::exchange(plan_, nullptr);
  require_gradient(plan != nullptr, options_.kind,
                   to_host_order(output_gradient.shape(), compute_.layout()),
                   plan ? plan->output : Shape());
  const Tensor input = std::exchange(input_, Tensor());
  // The gradients of the weights come first, so that their exchange overlaps with the gradient by
  // the input.
  plan->operation->backward_weights(input.raw(), output_gradient.raw(), weight_.gradient.raw(),
                                    bias_.gradient.raw());
  report(parameters(), ready);
  if (!options_.input_gradient) return Tensor();
  Tensor input_gradient = compute_.allocate(input.shape());
  plan->operation->backward_data(computed(weight_).raw(), output_gradient.raw(),
                                 input_gradient.raw());
  return input_gradient;
}

std::vector<DeviceParameter*> WeightedLayer::parameters() {
  if (!options_.bias) return {&weight_};
  return {&weight_, &bias_};
}

std::unique_ptr<DeviceLayer> make_device_linear(const LinearOptions& options,
                                                DeviceCompute& compute) {
  const auto plan = [options, &compute](const Shape& input) {
    const InnerProductShape shape = inner_product_shape(options, input);
    return WeightedLayer::Plan{{shape.batch, shape.out_features},
                               compute.math().linear(shape, compute.type())};
  };
  return std::make_unique<WeightedLayer>(
      WeightedLayer::Options{.kind = "Linear",
                             .weight = {options.out_features, options.in_features},
                             .bias = options.bias,
                             .input_gradient = options.input_gradient,
                             .plan = plan},
      compute);
}

std::unique_ptr<DeviceLayer> make_device_conv2d(const Conv2dOptions& options,
                                                DeviceCompute& compute) {
  const auto plan = [options, &compute](const Shape& input) {
    const ConvolutionShape shape = convolution_shape(options, input);
    return WeightedLayer::Plan{shape_of(shape.output()),
                               compute.math().convolution(shape, compute.format())};
  };
  return std::make_unique<WeightedLayer>(
      WeightedLayer::Options{
          .kind = "Conv2d",
          .weight = {options.out_channels, options.in_channels, options.kernel, options.kernel},
          .bias = options.bias,
          .input_gradient = options.input_gradient,
          .plan = plan},
      compute);
}

}  // namespace horo::ops

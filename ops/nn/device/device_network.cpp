#include "ops/nn/device/device_network.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "horo/base/error.h"
#include "ops/nn/device/tensor_functions.h"

namespace horo::ops {
namespace {

void require_type(std::string_view what, DataType got, DataType expected) {
  HORO_CHECK(got == expected, fmt::format("network on a device: {} has type {}; expected {}", what,
                                          name_of(got), name_of(expected)));
}

}  // namespace

DeviceNetwork::DeviceNetwork(std::unique_ptr<DeviceLayer> layers, DeviceCompute& compute)
    : layers_(std::move(layers)), compute_(compute) {}

Tensor DeviceNetwork::forward(Tensor input, const DevicePass& pass) {
  require_type("input", input.type(), DataType::kFloat32);
  return layers_->forward(in_device_order(compute_, std::move(input), compute_.type()), pass);
}

Tensor DeviceNetwork::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  require_type("output gradient", output_gradient.type(), compute_.type());
  // Empty if the first layer was built without an input gradient.
  Tensor gradient = layers_->backward(std::move(output_gradient), ready);
  if (gradient.count() == 0) return gradient;
  return in_host_order(compute_, std::move(gradient), DataType::kFloat32);
}

}  // namespace horo::ops

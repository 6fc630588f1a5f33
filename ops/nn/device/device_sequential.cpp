#include "ops/nn/device/device_sequential.h"

#include <utility>

#include "ops/nn/stage_walk.h"

namespace horo::ops {

DeviceSequential::DeviceSequential(std::vector<Stage<DeviceLayer>> stages)
    : stages_(std::move(stages)) {}

Tensor DeviceSequential::forward(Tensor input, const DevicePass& pass) {
  return forward_through(stages_, std::move(input), pass);
}

Tensor DeviceSequential::backward(Tensor output_gradient, const DeviceGradientReady& ready) {
  return backward_through(stages_, std::move(output_gradient), ready);
}

std::vector<DeviceParameter*> DeviceSequential::parameters() { return parameters_of(stages_); }

std::vector<DeviceParameter*> DeviceSequential::buffers() { return buffers_of(stages_); }

}  // namespace horo::ops

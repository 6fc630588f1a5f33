#pragma once

#include <span>
#include <vector>

#include "horo/base/device/device.h"
#include "horo/device_gradient_sync.h"
#include "ops/kernels/device/gradient_norm.h"
#include "ops/nn/device/device_layer.h"

namespace horo::ops {

/// The gradients of a network where they are reduced, and what they say together. Used from one
/// thread.
class MeasuredGradients {
 public:
  /// gradients[i], for each of the parameters in order, says where its gradient is to be read, and
  /// stays there.
  MeasuredGradients(device::Device& device, device::Stream& stream,
                    const std::vector<DeviceParameter*>& parameters,
                    std::span<const ReducedGradient> gradients);

  /// Gives the measurement to `stream`; see measure_gradients().
  void measure(device::Stream& stream, const device_kernels::GradientMeasure& how);
  /// Of the latest measure(), in memory of the device; zeros before.
  const device_kernels::GradientVerdict* verdict() const;

 private:
  struct Group {
    DataType type;
    float scale;
    std::vector<device_kernels::GradientTensor> tensors;
  };

  std::vector<Group> groups_;
  device::Memory partial_sums_, verdict_;
};

}  // namespace horo::ops

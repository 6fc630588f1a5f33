#pragma once

#include <span>
#include <vector>

#include "horo/device/device.h"
#include "horo/horo.h"
#include "ops/backend/device/update/gradient_norm.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// Measures the reduced gradients of a network: their norm, and whether they are finite. Used from
/// one thread.
class MeasuredGradients {
 public:
  /// gradients[i] is the location of the reduced gradient of parameters[i]. It must not move.
  MeasuredGradients(device::Device& device, device::Stream& stream,
                    const std::vector<Parameter*>& parameters,
                    std::span<const ReducedGradient> gradients);

  /// Submits the measurement to `stream`; see measure_gradients().
  void measure(device::Stream& stream, const device_kernels::GradientMeasure& how);
  /// The result of the latest measure(), in device memory; zeros before the first one.
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

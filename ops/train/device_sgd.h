#pragma once

#include <span>
#include <vector>

#include "horo/base/device/device.h"
#include "horo/device_gradient_sync.h"
#include "ops/kernels/device/update.h"
#include "ops/nn/device/device_compute.h"
#include "ops/nn/device/device_layer.h"
#include "ops/optim/sgd.h"

namespace horo::ops {

/// Sgd for parameters on a device: one launch for all of them whose gradients have come in one
/// type, with the copies that layers compute with written on the way. Used from one thread.
class DeviceSgd {
 public:
  /// Borrows the parameters. gradients[i], for each of them in order, says where its gradient is to
  /// be read, and stays there. Its momentum is zero.
  DeviceSgd(device::Device& device, device::Stream& stream,
            const std::vector<DeviceParameter*>& parameters,
            std::span<const ReducedGradient> gradients, const SgdOptions& options);

  /// Gives the update to `stream`. The gradients' own scale comes in the place of use.scale.
  void step(device::Stream& stream, const device_kernels::GradientUse& use = {});
  void set_learning_rate(float learning_rate) { options_.learning_rate = learning_rate; }

  /// Takes on what Sgd::momentum_buffers() of the same parameters holds: none without momentum.
  void upload_momentum(std::span<const Tensor> from, DeviceCompute& compute);
  /// The way back. Waits for the device.
  void download_momentum(std::span<Tensor> to, DeviceCompute& compute);

 private:
  struct Momentum {
    DeviceTensor values;  // in the device's order
    bool is_channels_last;
  };
  struct Group {
    device_kernels::UpdateTypes types;
    float scale;
    std::vector<device_kernels::SgdTensor> tensors;
  };

  SgdOptions options_;
  std::vector<Momentum> momenta_;
  std::vector<Group> groups_;
};

}  // namespace horo::ops

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/device/device_layer.h"

namespace horo::ops {

/// The gradients of a network on a device, and the loss, in one block of the device's memory: those
/// of one type lie one behind the other, in the order in which backward makes them, so that what
/// is exchanged together lies together. Each begins at a multiple of kAlignment bytes; what is left
/// between two is exchanged too, as zeros.
class DeviceGradients {
 public:
  static constexpr std::size_t kAlignment = 16;
  static constexpr const char* kLossName = "train.loss";

  /// Gives every parameter its gradient's place in the block. They outlive this. The memory is all
  /// zeros once `stream` has come past.
  DeviceGradients(device::Device& device, device::Stream& stream,
                  const std::vector<DeviceParameter*>& parameters);

  /// What a DeviceGradientSync registers: of each parameter, in order, then the loss.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// Where this rank puts its own.
  float* loss() const { return loss_; }

 private:
  std::shared_ptr<device::Memory> memory_;
  std::vector<NamedTensor> tensors_;
  float* loss_ = nullptr;
};

}  // namespace horo::ops

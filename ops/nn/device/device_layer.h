#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tensor/device_tensor.h"

namespace horo::ops {

/// A trainable tensor on a device, or, with an empty gradient, one that belongs to the model
/// (running statistics).
struct DeviceParameter {
  std::string name;       ///< as the Parameter's of the layer on the host
  DeviceTensor value;     ///< float32, in the device's order: what the optimizer updates
  DeviceTensor copy;      ///< the value in the type the layer computes with; empty: that is `value`
  DeviceTensor gradient;  ///< of the type of `copy`, or float32 where there is none
  /// A filter that lies as [out, height, width, in], where the host has [out, in, height, width].
  bool is_channels_last = false;
};

/// As Pass.
struct DevicePass {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  /// Global index of each row of the batch, in memory of the device, unchanged until the stream has
  /// done the backward pass. May be null when not training.
  const std::uint64_t* samples = nullptr;
};

/// Called with a parameter once the kernels that make its gradient have been given to the stream.
using DeviceGradientReady = std::function<void(const DeviceParameter&)>;

/// One stage of a network on a device; a Layer's counterpart, with the same rules. All work goes to
/// the stream of its DeviceCompute, which outlives it; nothing blocks. Tensors between layers are
/// of the type and in the layout that DeviceCompute says. What a layer is given it never writes to.
/// Used from one thread at a time.
class DeviceLayer {
 public:
  virtual ~DeviceLayer() = default;
  /// Keeps what backward() needs if pass.training.
  virtual DeviceTensor forward(DeviceTensor input, const DevicePass& pass) = 0;
  /// Belongs to the latest training forward(). Overwrites the gradients of the parameters, where
  /// these lie now (the caller may have moved them to other memory, at multiples of 16 bytes),
  /// calls `ready` for each, and returns the gradient by the input; empty where Layer's is.
  virtual DeviceTensor backward(DeviceTensor output_gradient, const DeviceGradientReady& ready) = 0;
  /// In forward order. The pointers stay valid while the layer lives.
  virtual std::vector<DeviceParameter*> parameters() { return {}; }
  virtual std::vector<DeviceParameter*> buffers() { return {}; }
};

}  // namespace horo::ops

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace horo::ops {

/// A trainable tensor on a device. If the gradient is empty, the tensor belongs to the model but is
/// not trained (running statistics).
struct DeviceParameter {
  std::string name;  ///< equal to that of the host layer's Parameter
  Tensor value;      ///< float32, in the device's order: what the optimizer updates
  Tensor copy;       ///< the value in the type the layer computes with; empty: that is `value`
  Tensor gradient;   ///< of the type of `copy`, or float32 where there is none
  /// Set for a filter that is stored as [out, height, width, in]; the host stores [out, in, height,
  /// width].
  bool is_channels_last = false;
};

/// The counterpart of Pass.
struct DevicePass {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  /// The global index of each sample of the batch, in device memory. Must not change until the
  /// stream has completed the backward pass. May be null when not training.
  const std::uint64_t* samples = nullptr;
};

/// Called with a parameter once the kernels that compute its gradient are submitted to the stream.
using DeviceGradientReady = std::function<void(const DeviceParameter&)>;

/// One stage of a network on a device: the counterpart of Layer, with the same rules. All work is
/// submitted to the stream of its DeviceCompute, which must outlive the layer; nothing blocks. The
/// tensors between layers have the type and layout of DeviceCompute. A layer never writes to its
/// inputs. Used from one thread at a time.
class DeviceLayer {
 public:
  virtual ~DeviceLayer() = default;
  /// Stores what backward() needs if pass.training is set.
  virtual Tensor forward(Tensor input, const DevicePass& pass) = 0;
  /// Computes the gradients for the latest training forward(). Overwrites the gradients of the
  /// parameters at their current address, which the caller may have changed to another multiple of
  /// 16 bytes. Calls `ready` for each parameter. Returns the gradient by the input, or an empty
  /// tensor where Layer does.
  virtual Tensor backward(Tensor output_gradient, const DeviceGradientReady& ready) = 0;
  /// In forward order. The pointers stay valid for the lifetime of the layer.
  virtual std::vector<DeviceParameter*> parameters() { return {}; }
  virtual std::vector<DeviceParameter*> buffers() { return {}; }
};

}  // namespace horo::ops

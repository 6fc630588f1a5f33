#pragma once

#include <memory>
#include <utility>

#include "horo/base/device/caching_allocator.h"
#include "horo/base/device/device.h"
#include "ops/kernels/image_format.h"
#include "ops/nn/device/device_math.h"
#include "ops/tensor/device_tensor.h"

namespace horo::ops {

/// What a network on a device computes with: a stream, memory, operations, and the type and layout
/// of what flows between its layers. Outlives its layers and tensors. Used from one thread at a
/// time.
class DeviceCompute {
 public:
  /// With the libraries of `device`, which outlives this, on a stream of its own. `type`: kFloat32,
  /// computed channels first and in full precision, or kBFloat16, channels last, as tensor cores
  /// want it; InvalidArgument otherwise. A GPU becomes the calling thread's current device.
  explicit DeviceCompute(device::Device& device, DataType type = DataType::kFloat32);
  /// Waits for the stream.
  ~DeviceCompute();
  DeviceCompute(const DeviceCompute&) = delete;
  DeviceCompute& operator=(const DeviceCompute&) = delete;

  device::Device& device() const { return device_; }
  device::Stream& stream() const { return *stream_; }
  device::CachingAllocator& allocator() { return allocator_; }
  DeviceMath& math() const { return *math_; }

  /// Of activations, their gradients, and the weights and biases that layers compute with.
  DataType type() const { return format_.type; }
  ImageLayout layout() const { return format_.layout; }
  const ImageFormat& format() const { return format_; }

  /// Any values, for work of stream(). Goes back to the allocator with the tensor.
  DeviceTensor allocate(Shape shape, DataType type);
  DeviceTensor allocate(Shape shape) { return allocate(std::move(shape), type()); }

 private:
  device::Device& device_;
  ImageFormat format_;
  std::unique_ptr<device::Stream> stream_;
  device::CachingAllocator allocator_;
  std::unique_ptr<DeviceMath> math_;
};

}  // namespace horo::ops

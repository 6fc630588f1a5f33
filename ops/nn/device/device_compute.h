#pragma once

#include <memory>
#include <utility>

#include "horo/device/caching_allocator.h"
#include "horo/device/device.h"
#include "ops/kernels/shapes.h"
#include "ops/nn/device/device_math.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// The resources with which a network computes on a device: a stream, memory, operations, and the
/// type and layout of the tensors between its layers. Must outlive its layers and tensors. Used
/// from one thread at a time.
class DeviceCompute {
 public:
  /// Uses the libraries of `device`, which must outlive this, and creates a stream. With kFloat32
  /// the layout is channels first and products have full precision. With kBFloat16 the layout is
  /// channels last, which tensor cores read without a transposition. Throws InvalidArgument for
  /// other types. A GPU becomes the current device of the calling thread.
  explicit DeviceCompute(device::Device& device, DataType type = DataType::kFloat32);
  /// Waits for the stream.
  ~DeviceCompute();
  DeviceCompute(const DeviceCompute&) = delete;
  DeviceCompute& operator=(const DeviceCompute&) = delete;

  device::Device& device() const { return device_; }
  device::Stream& stream() const { return *stream_; }
  device::CachingAllocator& allocator() { return allocator_; }
  DeviceMath& math() const { return *math_; }

  /// The type of activations, of their gradients, and of the weights and biases that layers compute
  /// with.
  DataType type() const { return format_.type; }
  ImageLayout layout() const { return format_.layout; }
  const ImageFormat& format() const { return format_; }

  /// Allocates a tensor with undefined values for work on stream(). Its memory returns to the
  /// allocator when the tensor is destroyed.
  Tensor allocate(Shape shape, DataType type);
  Tensor allocate(Shape shape) { return allocate(std::move(shape), type()); }

 private:
  device::Device& device_;
  ImageFormat format_;
  std::unique_ptr<device::Stream> stream_;
  device::CachingAllocator allocator_;
  std::unique_ptr<DeviceMath> math_;
};

}  // namespace horo::ops

#include "ops/backend/device/device_backend.h"

#include <fmt/format.h>

#include <exception>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/device/host/host_device.h"

namespace horo::ops {
namespace {

ImageFormat format_for(DataType type) {
  HORO_CHECK(
      type == DataType::kFloat32 || type == DataType::kBFloat16 || type == DataType::kFloat16,
      fmt::format("a device computes with float32, bfloat16 or float16, not with {}",
                  name_of(type)));
  // Tensor cores multiply types of 16 bits and read channels last without a transposition.
  return {type,
          type == DataType::kFloat32 ? ImageLayout::kChannelsFirst : ImageLayout::kChannelsLast};
}

std::unique_ptr<Operations> make_operations(device::Device& device, device::Stream& stream,
                                            device::CachingAllocator& allocator) {
  if (device::is_host(device)) return make_host_operations(stream, allocator);
  device.make_current();
  return make_cuda_operations(stream, allocator);
}

}  // namespace

DeviceBackend::DeviceBackend(device::Device& device, DataType type)
    : Backend(format_for(type)),
      device_(device),
      stream_(device.make_stream()),
      allocator_(device),
      transfer_(device),
      operations_(make_operations(device, *stream_, allocator_)) {}

// Tensors may outlive the stream.
DeviceBackend::~DeviceBackend() {
  try {
    allocator_.forget(*stream_);
    stream_->synchronize();
  } catch (const std::exception& error) {
    log_warning("work of a model on a device has failed: {}", error.what());
  }
}

Tensor DeviceBackend::allocate(Shape shape, DataType type) {
  const std::size_t bytes = shape.count() * size_of(type);
  return {std::move(shape), type, device_, allocator_.allocate(bytes, *stream_)};
}

}  // namespace horo::ops

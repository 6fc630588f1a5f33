#include "ops/nn/device/device_compute.h"

#include <fmt/format.h>

#include <exception>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/device/host/host_device.h"

namespace horo::ops {
namespace {

ImageFormat format_for(DataType type) {
  HORO_CHECK(type == DataType::kFloat32 || type == DataType::kBFloat16,
             fmt::format("a device computes with float32 or bfloat16, not with {}", name_of(type)));
  // Tensor cores multiply bfloat16 and read channels last without a transposition.
  return {type,
          type == DataType::kBFloat16 ? ImageLayout::kChannelsLast : ImageLayout::kChannelsFirst};
}

std::unique_ptr<DeviceMath> make_math(device::Device& device, device::Stream& stream,
                                      device::CachingAllocator& allocator) {
  if (device::is_host(device)) return make_host_math(stream);
  device.make_current();
  return make_cuda_math(stream, allocator);
}

}  // namespace

// The members are destroyed in reverse order: the operations free their workspace to the allocator,
// and the allocator needs the stream to be alive.
DeviceCompute::DeviceCompute(device::Device& device, DataType type)
    : device_(device),
      format_(format_for(type)),
      stream_(device.make_stream()),
      allocator_(device),
      math_(make_math(device, *stream_, allocator_)) {}

DeviceCompute::~DeviceCompute() {
  try {
    stream_->synchronize();
  } catch (const std::exception& error) {
    log_warning("work of a network on a device has failed: {}", error.what());
  }
}

Tensor DeviceCompute::allocate(Shape shape, DataType type) {
  const std::size_t bytes = shape.count() * size_of(type);
  return {std::move(shape), type, device_, allocator_.allocate(bytes, *stream_)};
}

}  // namespace horo::ops

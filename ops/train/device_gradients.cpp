#include "ops/train/device_gradients.h"

#include <array>

namespace horo::ops {
namespace {

std::size_t padded_bytes(std::size_t bytes) {
  constexpr std::size_t kAlignment = DeviceGradients::kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DeviceGradients::DeviceGradients(device::Device& device, device::Stream& stream,
                                 const std::vector<DeviceParameter*>& parameters)
    : tensors_(parameters.size() + 1) {
  std::size_t total = kAlignment;
  for (const DeviceParameter* parameter : parameters)
    total += padded_bytes(parameter->gradient.bytes());
  memory_ = std::make_shared<device::Memory>(device.allocate(total));
  stream.fill(memory_->data(), 0, total);

  std::byte* next = memory_->data();
  const auto place = [&](std::size_t index, const std::string& name, DataType type,
                         std::size_t bytes) {
    std::byte* const at = next;
    tensors_[index] = {name, TensorView(at, type, Shape{padded_bytes(bytes) / size_of(type)})};
    next += padded_bytes(bytes);
    return at;
  };
  // Backward makes the loss first, then the gradients of the last layer.
  loss_ = reinterpret_cast<float*>(
      place(parameters.size(), kLossName, DataType::kFloat32, sizeof(float)));
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    for (std::size_t i = parameters.size(); i-- > 0;) {
      DeviceTensor& gradient = parameters[i]->gradient;
      if (gradient.type() != type) continue;
      const Shape shape = gradient.shape();
      gradient =
          DeviceTensor(shape, type, place(i, parameters[i]->name, type, gradient.bytes()), memory_);
    }
  }
}

}  // namespace horo::ops

#include "ops/train/device_gradients.h"

#include <algorithm>
#include <array>

namespace horo::ops {

using device_kernels::GradientGroup;
using device_kernels::GradientVerdict;

// Gradients with equal type and scale form a group, and each group is measured at once. The order
// of the groups and tensors fixes the order of the sum and with it the bits of the norm.
MeasuredGradients::MeasuredGradients(device::Device& device, device::Stream& stream,
                                     const std::vector<Parameter*>& parameters,
                                     std::span<const ReducedGradient> gradients)
    : verdict_(device.allocate(sizeof(GradientVerdict))) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const DataType type = gradients[i].type;
    const auto scale = static_cast<float>(gradients[i].scale);
    auto group = std::ranges::find_if(
        groups_, [&](const Group& one) { return one.type == type && one.scale == scale; });
    if (group == groups_.end()) group = groups_.insert(group, {type, scale, {}});
    group->tensors.push_back({gradients[i].data, parameters[i]->gradient.count()});
  }
  std::size_t sums = 1;
  for (const Group& group : groups_) sums += device_kernels::count_partial_sums(group.tensors);
  partial_sums_ = device.allocate(sums * sizeof(double));
  stream.fill(verdict_.data(), 0, sizeof(GradientVerdict));
}

void MeasuredGradients::measure(device::Stream& stream,
                                const device_kernels::GradientMeasure& how) {
  std::vector<GradientGroup> groups;
  for (const Group& group : groups_) groups.push_back({group.type, group.tensors, group.scale});
  device_kernels::measure_gradients(
      stream, groups,
      {reinterpret_cast<double*>(partial_sums_.data()), partial_sums_.size() / sizeof(double)},
      reinterpret_cast<GradientVerdict*>(verdict_.data()), how);
}

const GradientVerdict* MeasuredGradients::verdict() const {
  return reinterpret_cast<const GradientVerdict*>(verdict_.data());
}

namespace {

std::size_t padded_bytes(std::size_t bytes) {
  constexpr std::size_t kAlignment = DeviceGradients::kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// All gradients lie in one block of memory in the order in which backward() completes them. The
// tensors of a bucket are then contiguous, and the exchange needs no copy into a fused buffer.
// Tensors of one type are adjacent because a bucket has one type.
DeviceGradients::DeviceGradients(device::Device& device, device::Stream& stream,
                                 const std::vector<Parameter*>& parameters)
    : tensors_(parameters.size() + 1) {
  std::size_t total = kAlignment;
  for (const Parameter* parameter : parameters) total += padded_bytes(parameter->gradient.bytes());
  memory_ = std::make_shared<device::Memory>(allocate_for_exchange(device, total));
  stream.fill(memory_->data(), 0, total);

  std::byte* next = memory_->data();
  const auto place = [&](std::size_t index, const std::string& name, DataType type,
                         std::size_t bytes) {
    std::byte* const at = next;
    tensors_[index] = {name,
                       TensorView(at, type, Shape{padded_bytes(bytes) / size_of(type)}, device)};
    next += padded_bytes(bytes);
    return at;
  };
  // Backward computes the loss first, then the gradients from the last layer to the first.
  loss_ = reinterpret_cast<float*>(
      place(parameters.size(), kLossName, DataType::kFloat32, sizeof(float)));
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    for (std::size_t i = parameters.size(); i-- > 0;) {
      Tensor& gradient = parameters[i]->gradient;
      if (gradient.type() != type) continue;
      const Shape shape = gradient.shape();
      gradient = Tensor(shape, type, place(i, parameters[i]->name, type, gradient.bytes()), memory_,
                        &device);
    }
  }
}

}  // namespace horo::ops

// Copies the values of parameters between host and device.
#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

#include "horo/base/error.h"
#include "ops/nn/device/tensor_functions.h"
#include "ops/nn/device/to_device.h"
#include "ops/tensor/tensor_transfer.h"

namespace horo::ops {
namespace {

using Visit = std::function<void(Parameter&, DeviceParameter&)>;

// Names and shapes must match pair by pair: a model with the same number of parameters in another
// order would otherwise be filled with wrong values.
void require_same(const Parameter& host, const DeviceParameter& device, ImageLayout layout) {
  const Shape shape = to_host_order(device.value.shape(), layout);
  HORO_CHECK(
      host.name == device.name && host.value.shape() == shape,
      fmt::format("the model on the device has '{}' {} where the one on the host has '{}' "
                  "{}; make it with to_device() from the same model",
                  device.name, shape.to_string(), host.name, host.value.shape().to_string()));
}

void visit_pairs(const std::vector<Parameter*>& host, const std::vector<DeviceParameter*>& device,
                 ImageLayout layout, const Visit& visit) {
  HORO_CHECK(host.size() == device.size(),
             fmt::format("the model on the device has {} parameters or buffers where the one on "
                         "the host has {}; make it with to_device() from the same model",
                         device.size(), host.size()));
  // All pairs are checked before the first one is copied.
  for (std::size_t i = 0; i < host.size(); ++i) require_same(*host[i], *device[i], layout);
  for (std::size_t i = 0; i < host.size(); ++i) visit(*host[i], *device[i]);
}

void visit_all(Layer& host, DeviceLayer& device, DeviceCompute& compute, const Visit& visit) {
  visit_pairs(host.parameters(), device.parameters(), compute.layout(), visit);
  visit_pairs(host.buffers(), device.buffers(), compute.layout(), visit);
}

}  // namespace

// Filters that are stored channels last are copied in the order of the host and transposed on the
// device. `staged` may be freed at the end of the function, because the allocator reuses memory in
// stream order.
void upload(const Tensor& from, DeviceTensor& to, bool is_channels_last, TensorTransfer& transfer,
            DeviceCompute& compute) {
  if (!is_channels_last) return transfer.upload(from, to, compute.stream());
  DeviceTensor staged = compute.allocate(from.shape(), DataType::kFloat32);
  transfer.upload(from, staged, compute.stream());
  copy_to_device_order(compute, staged, to);
}

void download(const DeviceTensor& from, bool is_channels_last, Tensor& to, TensorTransfer& transfer,
              DeviceCompute& compute) {
  if (!is_channels_last) return transfer.download(from, to, compute.stream());
  DeviceTensor staged = compute.allocate(to.shape(), DataType::kFloat32);
  copy_to_host_order(compute, from, staged);
  transfer.download(staged, to, compute.stream());
}

void upload_values(Layer& from, DeviceLayer& to, DeviceCompute& compute) {
  TensorTransfer transfer(compute.device());
  visit_all(from, to, compute, [&](Parameter& host, DeviceParameter& device) {
    upload(host.value, device.value, device.is_channels_last, transfer, compute);
    if (device.copy.count() > 0) convert(compute, device.value, device.copy);
  });
}

void download_values(DeviceLayer& from, Layer& to, DeviceCompute& compute) {
  TensorTransfer transfer(compute.device());
  visit_all(to, from, compute, [&](Parameter& host, DeviceParameter& device) {
    download(device.value, device.is_channels_last, host.value, transfer, compute);
  });
}

}  // namespace horo::ops

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
      fmt::format("the model on the device has '{}' {}, but the model on the host has '{}' "
                  "{}; create it with to_device() from the same model",
                  device.name, shape.to_string(), host.name, host.value.shape().to_string()));
}

void require_same(std::string_view what, const std::vector<Parameter*>& host,
                  const std::vector<DeviceParameter*>& device, ImageLayout layout) {
  HORO_CHECK(host.size() == device.size(),
             fmt::format("the model on the device has {} {}, but the model on the host has {}; "
                         "create it with to_device() from the same model",
                         device.size(), what, host.size()));
  for (std::size_t i = 0; i < host.size(); ++i) require_same(*host[i], *device[i], layout);
}

// All parameters and buffers are checked before the first one is copied, so a mismatch changes no
// value.
void visit_all(Layer& host, DeviceLayer& device, DeviceCompute& compute, const Visit& visit) {
  const std::vector<Parameter*> parameters = host.parameters(), buffers = host.buffers();
  const std::vector<DeviceParameter*> device_parameters = device.parameters(),
                                      device_buffers = device.buffers();
  require_same("parameters", parameters, device_parameters, compute.layout());
  require_same("buffers", buffers, device_buffers, compute.layout());
  for (std::size_t i = 0; i < parameters.size(); ++i) visit(*parameters[i], *device_parameters[i]);
  for (std::size_t i = 0; i < buffers.size(); ++i) visit(*buffers[i], *device_buffers[i]);
}

}  // namespace

// Filters that are stored channels last are copied in the order of the host and transposed on the
// device. `staged` may be freed at the end of the function, because the allocator reuses memory in
// stream order.
void upload(const Tensor& from, Tensor& to, bool is_channels_last, TensorTransfer& transfer,
            DeviceCompute& compute) {
  if (!is_channels_last) return transfer.upload(from, to, compute.stream());
  Tensor staged = compute.allocate(from.shape(), DataType::kFloat32);
  transfer.upload(from, staged, compute.stream());
  copy_to_device_order(compute, staged, to);
}

void download(const Tensor& from, bool is_channels_last, Tensor& to, TensorTransfer& transfer,
              DeviceCompute& compute) {
  if (!is_channels_last) return transfer.download(from, to, compute.stream());
  Tensor staged = compute.allocate(to.shape(), DataType::kFloat32);
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

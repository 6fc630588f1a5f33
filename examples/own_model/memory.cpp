#include "examples/own_model/memory.h"

#include "horo/device/host/host_device.h"

namespace device = horo::device;

Memory::Memory(horo::Context& context, const std::string& kind) {
  if (kind == "gpu") device_ = horo::open_gpu(context);
  if (kind == "stand-in") device_ = std::make_shared<device::HostDevice>();
  if (device_ != nullptr) stream_ = device_->make_stream();
}

float* Memory::allocate(std::size_t count) {
  if (device_ != nullptr)
    blocks_.push_back(horo::allocate_for_exchange(*device_, count * sizeof(float)));
  else
    blocks_.push_back({new float[count], count * sizeof(float),
                       [](void* values) { delete[] static_cast<float*>(values); }});
  return reinterpret_cast<float*>(blocks_.back().data());
}

horo::TensorView Memory::view(float* values, std::size_t count) const {
  if (device_ == nullptr) return horo::TensorView(values, {count});
  return horo::TensorView(values, {count}, *device_);
}

float Memory::read(const float* address) {
  if (device_ == nullptr) return *address;
  const device::Memory copy = device_->allocate_pinned(sizeof(float));
  stream_->copy(copy.data(), address, sizeof(float));
  stream_->synchronize();
  return *reinterpret_cast<const float*>(copy.data());
}

void Memory::ready(horo::GradientSync& sync, std::size_t gradient) const {
  if (device_ == nullptr)
    sync.ready(gradient);
  else
    sync.ready(gradient, handle());
}

void Memory::wait(horo::GradientSync& sync) const {
  if (device_ == nullptr)
    sync.wait();
  else
    sync.wait_on(handle());
}

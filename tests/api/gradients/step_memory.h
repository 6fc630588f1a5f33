#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/horo.h"

namespace horo {

/// The memory of the gradients of a test.
enum class MemoryKind { kHost, kDevice };
inline constexpr MemoryKind kMemoryKinds[] = {MemoryKind::kHost, MemoryKind::kDevice};

/// A host stand-in for a GPU, with the blocks of its memory that are in use.
struct StepDevice {
  std::shared_ptr<device::HostDevice> device;
  std::map<const void*, device::Memory> blocks;
  std::unique_ptr<device::Stream> stream;
};

/// Allocates in the memory of `device`, or in host memory if `device` is null.
template <typename T>
class StepAllocator {
 public:
  using value_type = T;
  explicit StepAllocator(std::shared_ptr<StepDevice> device = nullptr)
      : device_(std::move(device)) {}
  template <typename U>
  StepAllocator(const StepAllocator<U>& other)  // NOLINT: allocators convert
      : device_(other.device()) {}
  T* allocate(std::size_t count) const {
    if (device_ == nullptr) return std::allocator<T>().allocate(count);
    device::Memory block = device_->device->allocate(count * sizeof(T));
    T* const data = reinterpret_cast<T*>(block.data());
    device_->blocks.emplace(data, std::move(block));
    return data;
  }
  void deallocate(T* data, std::size_t count) const {
    if (device_ == nullptr)
      std::allocator<T>().deallocate(data, count);
    else
      device_->blocks.erase(data);
  }
  const std::shared_ptr<StepDevice>& device() const { return device_; }
  template <typename U>
  bool operator==(const StepAllocator<U>& other) const {
    return device_ == other.device();
  }

 private:
  std::shared_ptr<StepDevice> device_;
};

/// Memory for the gradients of one rank: host memory, or memory of a host stand-in for a GPU. Also
/// makes the calls of GradientSync that depend on the memory, so that a test of a step is written
/// once. The program may access the memory of the stand-in while no step is in progress. Copies
/// share the memory.
class StepMemory {
 public:
  template <typename T>
  using Values = std::vector<T, StepAllocator<T>>;

  explicit StepMemory(MemoryKind kind = MemoryKind::kHost, std::uint64_t seed = 1) {
    if (kind == MemoryKind::kHost) return;
    device_ = std::make_shared<StepDevice>();
    device_->device = std::make_shared<device::HostDevice>(
        device::HostDevice::Options{.max_delay = std::chrono::microseconds(50), .seed = seed});
    device_->stream = device_->device->make_stream(device::Priority::kNormal);
  }

  template <typename T>
  Values<T> values(std::size_t count, T value = T()) const {
    return Values<T>(count, value, StepAllocator<T>(device_));
  }
  template <typename T>
  TensorView view(Values<T>& values) const {
    if (!is_on_device()) return TensorView(values);
    return TensorView(values.data(), Shape{values.size()}, *device_->device);
  }
  bool is_on_device() const { return device_ != nullptr; }

  void ready(GradientSync& sync, std::size_t gradient) const {
    if (is_on_device())
      sync.ready(gradient, device_->stream->native());
    else
      sync.ready(gradient);
  }
  /// Marks all gradients, ends the pass and returns the report of the step.
  const StepReport& exchange(GradientSync& sync) const {
    if (!is_on_device()) return sync.exchange();
    sync.exchange(device_->stream->native());
    return sync.report();
  }
  int join(GradientSync& sync, const std::function<void(const StepReport&)>& after = {}) const {
    return is_on_device() ? sync.join(after, device_->stream->native()) : sync.join(after);
  }

 private:
  std::shared_ptr<StepDevice> device_;
};

}  // namespace horo

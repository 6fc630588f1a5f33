#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "horo/base/tensor_view.h"
#include "horo/device/device.h"

namespace horo::device {

/// An array in device memory with a pinned host copy.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Device& device, std::size_t count)
      : owner_(device),
        count_(count),
        device_(device.allocate(bytes())),
        host_(device.allocate_pinned(bytes())) {}
  /// Enqueues the copy of `values` on `stream`. The array is valid after the stream has completed
  /// it.
  DeviceArray(Device& device, Stream& stream, const std::vector<T>& values)
      : DeviceArray(device, values.size()) {
    std::ranges::copy(values, host().begin());
    upload(stream);
  }

  T* data() const { return reinterpret_cast<T*>(device_.data()); }
  std::size_t size() const { return count_; }
  /// The array as a tensor of this shape, with at most size() elements.
  TensorView view(Shape shape) const { return TensorView(data(), std::move(shape), owner_); }
  TensorView view() const { return view(Shape{count_}); }
  std::span<T> host() const { return {reinterpret_cast<T*>(host_.data()), count_}; }
  void upload(Stream& stream) const { stream.copy(device_.data(), host_.data(), bytes()); }
  void download(Stream& stream) const { stream.copy(host_.data(), device_.data(), bytes()); }
  /// Copies the array to the host and returns it. Blocks until `stream` has completed.
  std::vector<T> values(Stream& stream) const {
    download(stream);
    stream.synchronize();
    return {host().begin(), host().end()};
  }

 private:
  std::size_t bytes() const { return std::max<std::size_t>(1, count_) * sizeof(T); }

  Device& owner_;
  std::size_t count_;
  Memory device_, host_;
};

}  // namespace horo::device

#pragma once

#include <cstddef>
#include <memory>

#include "horo/base/device/device.h"
#include "ops/tensor/device_tensor.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// Brings tensors from the host to a device and back, through pinned memory of its own, which grows
/// to the largest tensor. Device tensors are float32, float16 or bfloat16: the host converts,
/// rounding to nearest. Two of these, taken in turn, let one be filled while the other's copy runs.
/// Used from one thread at a time.
class TensorTransfer {
 public:
  /// `device` outlives this.
  explicit TensorTransfer(device::Device& device);
  /// Waits for the latest upload.
  ~TensorTransfer();
  TensorTransfer(const TensorTransfer&) = delete;
  TensorTransfer& operator=(const TensorTransfer&) = delete;

  /// Gives the copy to `stream`; `from` may be changed as soon as this returns. Waits for this
  /// object's upload before it alone. InvalidArgument if shapes differ, or for another type.
  void upload(const Tensor& from, DeviceTensor& to, device::Stream& stream);
  /// What `from` holds when `stream` comes to it, which is waited for. Likewise.
  void download(const DeviceTensor& from, Tensor& to, device::Stream& stream);

 private:
  /// The pinned memory, once it is free.
  std::byte* staging(std::size_t bytes);

  device::Device& device_;
  device::Memory pinned_;
  std::unique_ptr<device::Event> done_;  // the latest copy
};

}  // namespace horo::ops

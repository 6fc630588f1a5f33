#pragma once

#include <cstddef>
#include <memory>

#include "horo/device/device.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// Copies tensors between host and device through its own pinned memory, which grows to the largest
/// tensor. Device tensors are float32, float16 or bfloat16; the host converts with rounding to
/// nearest. Two transfers used alternately overlap conversion and copy. Used from one thread at a
/// time.
class TensorTransfer {
 public:
  /// `device` must outlive this object.
  explicit TensorTransfer(device::Device& device);
  /// Blocks until the latest upload has completed.
  ~TensorTransfer();
  TensorTransfer(const TensorTransfer&) = delete;
  TensorTransfer& operator=(const TensorTransfer&) = delete;

  /// Submits the copy to `stream`. `from` may be changed as soon as this returns. Blocks only until
  /// the previous upload of this object has completed. Throws InvalidArgument if the shapes differ
  /// or the type is not supported.
  void upload(const Tensor& from, Tensor& to, device::Stream& stream);
  /// Copies `from` in stream order and blocks until the copy has completed. Throws like upload().
  void download(const Tensor& from, Tensor& to, device::Stream& stream);

 private:
  /// Blocks until the pinned memory is free and returns it.
  std::byte* staging(std::size_t bytes);

  device::Device& device_;
  device::Memory pinned_;
  std::unique_ptr<device::Event> done_;  // the latest copy
};

}  // namespace horo::ops

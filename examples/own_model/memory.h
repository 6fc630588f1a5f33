#pragma once

#include <horo/horo.h>

#include <memory>
#include <string>
#include <vector>

/// The memory of a model's arrays: host memory, or the memory of a device. Has the calls that
/// depend on it, so that the rest of a program is the same for every memory. Must outlive the
/// GradientSync of its arrays. Used by one thread at a time.
class Memory {
 public:
  /// `kind`: "host", "stand-in" for the memory of a host stand-in for a GPU, or "gpu" for the
  /// memory of this rank's GPU. Collective over `context`. Throws DeviceError as open_gpu() does.
  Memory(horo::Context& context, const std::string& kind);

  /// Allocates `count` floats with undefined values. This object owns them.
  float* allocate(std::size_t count);
  /// A view of `count` floats at `values`, which allocate() returned.
  horo::TensorView view(float* values, std::size_t count) const;
  /// Returns the value at `address` when the stream has computed it. Blocks.
  float read(const float* address);
  /// Marks a gradient that the stream computes. Does not wait for the stream.
  void ready(horo::GradientSync& sync, std::size_t gradient) const;
  /// Ends a step. Later work of the stream sees the reduced gradients.
  void wait(horo::GradientSync& sync) const;

  /// The stream that computes on the arrays. Null for host memory, on which the caller computes.
  horo::device::Stream* stream() const { return stream_.get(); }
  /// The same as a handle for horo, null for host memory.
  void* handle() const { return stream_ == nullptr ? nullptr : stream_->native(); }

 private:
  std::shared_ptr<horo::device::Device> device_;  // null for host memory
  std::vector<horo::device::Memory> blocks_;
  std::unique_ptr<horo::device::Stream> stream_;
};

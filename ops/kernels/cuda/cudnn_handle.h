#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "horo/base/device/stream.h"

namespace horo::ops::cuda {

/// The connection of one thread with cuDNN on its current GPU. DeviceError where there is no GPU.
class Cudnn {
 public:
  Cudnn();
  /// The handle, whose work goes to `stream` from now on.
  cudnnHandle_t on(const device::Stream& stream) const;

 private:
  struct Destroy {
    void operator()(cudnnHandle_t handle) const noexcept;
  };
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, Destroy> handle_;
};

/// Where and with what an operation runs. The workspace lies in the GPU's memory and is used by no
/// other work of other streams until the operation is done; it may be empty where none is needed.
struct CudnnWork {
  const Cudnn& cudnn;
  device::Stream& stream;
  std::span<std::byte> workspace{};

  cudnnHandle_t handle() const { return cudnn.on(stream); }
};

}  // namespace horo::ops::cuda

#pragma once

#include <cstdint>

#include "horo/device/cuda/cuda_check.h"
#include "horo/device/memory.h"
#include "horo/device/signal.h"

namespace horo::device {

/// A word of pinned memory, for which streams wait with cuStreamWaitValue32().
class GpuSignal : public Signal {
 public:
  /// `pinned` must have at least 4 bytes. Throws DeviceError if the driver has no
  /// cuStreamWaitValue32().
  explicit GpuSignal(Memory pinned);
  void raise(std::uint32_t number) override;
  /// Makes the later work of `stream` wait until the signal has reached `number`.
  void add_wait(cudaStream_t stream, std::uint32_t number) const;

 private:
  std::uint32_t* word() const { return reinterpret_cast<std::uint32_t*>(pinned_.data()); }

  Memory pinned_;
};

}  // namespace horo::device

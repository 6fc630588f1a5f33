#pragma once

#include <cstddef>
#include <memory>

#include "horo/device/device.h"

namespace horo::ops {

/// Caches freed pinned memory, because allocating it is slow and waits for the device. Thread-safe.
class PinnedPool {
 public:
  /// `device` must outlive this object and its memory.
  explicit PinnedPool(device::Device& device);

  /// Returns pinned memory with undefined content. It may be freed on any thread, and after this
  /// object. It keeps the size of its first request, so requests of few sizes are best. Throws as
  /// Device::allocate_pinned() does.
  device::Memory allocate(std::size_t bytes);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace horo::ops

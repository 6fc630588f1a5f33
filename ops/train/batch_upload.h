#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "horo/base/device/caching_allocator.h"
#include "horo/base/device/device.h"
#include "ops/data/data_loader.h"
#include "ops/tensor/device_tensor.h"

namespace horo::ops {

/// A Batch on a device. Goes once the work that uses it has been given to the stream.
struct DeviceBatch {
  std::size_t rows = 0;
  DeviceTensor inputs;  ///< float32, in the host's order
  const std::int32_t* labels = nullptr;
  const std::uint64_t* samples = nullptr;
  std::shared_ptr<const device::Memory> memory;  ///< of all three
};

/// Brings batches to a device through pinned memory, on a stream of its own: while the device
/// computes with one, the next is on its way. Used from one thread.
class BatchUpload {
 public:
  /// `device` and `allocator` outlive this and the batches, which may outlive this.
  BatchUpload(device::Device& device, device::CachingAllocator& allocator);
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  /// `user`, the stream that uses the batch, waits for it on the device; the host waits for the
  /// upload before the last one alone.
  DeviceBatch upload(const Batch& batch, device::Stream& user);

 private:
  struct Slot {
    device::Memory pinned;
    std::unique_ptr<device::Event> copied;
  };

  device::Device& device_;
  device::CachingAllocator& allocator_;
  std::shared_ptr<device::Stream> stream_;  // lives as long as memory that was asked for on it
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

}  // namespace horo::ops

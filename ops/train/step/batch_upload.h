#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "horo/device/caching_allocator.h"
#include "horo/device/device.h"
#include "ops/data/data_loader.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// Uploads batches on its own stream: the next batch is copied while the device computes with the
/// current one. A batch that is not in pinned memory is first copied there, by the calling thread.
/// Used from one thread.
class BatchUpload {
 public:
  /// `device` and `allocator` must outlive this object and its batches. Batches may outlive this
  /// object.
  BatchUpload(device::Device& device, device::CachingAllocator& allocator);
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  /// Returns the batch in the memory of the device. Submits the copies and makes `user`, the stream
  /// that reads the batch, wait for them on the device. Blocks the host only until the upload
  /// before the previous one has completed. The result may be destroyed as soon as the work that
  /// uses it has been submitted.
  Batch upload(Batch batch, device::Stream& user);

 private:
  struct Slot {
    device::Memory staging;  // pinned; for a batch that is not
    Batch source;            // in use until `copied` is complete
    std::unique_ptr<device::Event> copied;
  };
  Batch staged(const Batch& batch, device::Memory& staging);

  device::Device& device_;
  device::CachingAllocator& allocator_;
  std::unique_ptr<device::Stream> stream_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

}  // namespace horo::ops

#include "ops/train/batch_upload.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "horo/base/log.h"
#include "horo/base/quantity.h"

namespace horo::ops {
namespace {

// Kernels read labels and samples in vector words, which need aligned addresses.
constexpr std::size_t kAlignment = 256;

}  // namespace

BatchUpload::BatchUpload(device::Device& device, device::CachingAllocator& allocator)
    : device_(device), allocator_(allocator), stream_(device.make_stream()) {
  for (Slot& slot : slots_) slot.copied = device.make_event();
}

BatchUpload::~BatchUpload() {
  try {
    allocator_.forget(*stream_);
    stream_->synchronize();
  } catch (const std::exception& error) {
    log_warning("the upload of a batch has failed: {}", error.what());
  }
}

// Two pinned buffers alternate. A buffer is overwritten only after its previous copy has completed,
// so the host runs at most two uploads ahead. The device memory belongs to stream_: note_use()
// keeps the allocator from reusing it before `user` has finished with the batch.
Batch BatchUpload::upload(const Batch& batch, device::Stream& user) {
  Slot& slot = slots_[next_++ % slots_.size()];
  slot.copied->synchronize();
  const Tensor* const parts[] = {&batch.inputs, &batch.targets, &batch.samples};
  std::size_t bytes = 0;
  for (const Tensor* part : parts) bytes += round_up(part->bytes(), kAlignment);
  if (slot.pinned.size() < bytes) slot.pinned = device_.allocate_pinned(bytes);
  const auto memory = std::make_shared<const device::Memory>(allocator_.allocate(bytes, *stream_));
  std::size_t offset = 0;
  const auto place = [&](const Tensor& part) {
    std::copy_n(part.raw(), part.bytes(), slot.pinned.data() + offset);
    std::byte* const at =
        memory->data() + std::exchange(offset, offset + round_up(part.bytes(), kAlignment));
    return Tensor(part.shape(), part.type(), at, memory, &device_);
  };
  Batch result{batch.where, place(batch.inputs), place(batch.targets), place(batch.samples)};
  stream_->copy(memory->data(), slot.pinned.data(), bytes);
  stream_->record(*slot.copied);
  user.wait(*slot.copied);
  allocator_.note_use(*memory, user);
  return result;
}

}  // namespace horo::ops

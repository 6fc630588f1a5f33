#include "ops/train/step/batch_upload.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo::ops {
namespace {

// Kernels read labels and samples in vector words, which need aligned addresses.
constexpr std::size_t kAlignment = 256;

std::size_t packed_bytes(const Batch& batch) {
  std::size_t bytes = 0;
  const auto add = [&](const Tensor& part) { bytes += round_up(part.bytes(), kAlignment); };
  for (const Tensor* part : {&batch.inputs, &batch.targets, &batch.samples}) add(*part);
  if (batch.crops) add(*batch.crops);
  return bytes;
}

/// Places the tensors of `batch` one after another, from `to` on. `place(address, tensor)` returns
/// the tensor at its place.
template <typename Place>
Batch packed(const Batch& batch, std::byte* to, Place place) {
  Batch result = map_tensors(batch, [&](const Tensor& part) {
    return place(std::exchange(to, to + round_up(part.bytes(), kAlignment)), part);
  });
  result.is_pinned = false;
  return result;
}

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

// `staging` is overwritten only after its previous copy has completed, because slots alternate.
Batch BatchUpload::staged(const Batch& batch, device::Memory& staging) {
  if (staging.size() < packed_bytes(batch)) staging = device_.allocate_pinned(packed_bytes(batch));
  return packed(batch, staging.data(), [](std::byte* to, const Tensor& part) {
    std::copy_n(part.raw(), part.bytes(), to);
    return Tensor(part.shape(), part.type(), to, nullptr);
  });
}

// The host runs at most two uploads ahead. The device memory belongs to stream_: note_use() keeps
// the allocator from reusing it before `user` has finished with the batch.
Batch BatchUpload::upload(Batch batch, device::Stream& user) {
  Slot& slot = slots_[next_++ % slots_.size()];
  slot.copied->synchronize();
  slot.source = batch.is_pinned ? std::move(batch) : staged(batch, slot.staging);
  const auto memory = std::make_shared<const device::Memory>(
      allocator_.allocate(packed_bytes(slot.source), *stream_));
  Batch result = packed(slot.source, memory->data(), [&](std::byte* to, const Tensor& part) {
    stream_->copy(to, part.raw(), part.bytes());
    return Tensor(part.shape(), part.type(), to, memory, &device_);
  });
  stream_->record(*slot.copied);
  user.wait(*slot.copied);
  allocator_.note_use(*memory, user);
  return result;
}

}  // namespace horo::ops

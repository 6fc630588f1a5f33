#include "ops/train/batch_upload.h"

#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "horo/base/log.h"

namespace horo::ops {
namespace {

// Kernels read labels and samples in vector words, which need aligned addresses.
constexpr std::size_t kAlignment = 256;

/// Offsets of the parts of a batch in one block of memory.
struct BatchLayout {
  std::size_t labels = 0, samples = 0, bytes = 0;  // the inputs come first

  explicit BatchLayout(const Batch& batch) {
    const auto end_of = [](std::size_t begin, std::size_t size) {
      return (begin + size + kAlignment - 1) / kAlignment * kAlignment;
    };
    labels = end_of(0, batch.inputs.count() * sizeof(float));
    samples = end_of(labels, std::span(batch.labels).size_bytes());
    bytes = end_of(samples, std::span(batch.samples).size_bytes());
  }
};

/// The memory of a batch and the stream on which it is freed. Members are destroyed in reverse
/// order, so the memory is freed before the stream.
struct BatchMemory {
  std::shared_ptr<device::Stream> stream;
  device::Memory memory;  // destroyed before the stream

  BatchMemory(std::shared_ptr<device::Stream> its_stream, device::Memory its_memory)
      : stream(std::move(its_stream)), memory(std::move(its_memory)) {}
};

void copy_in(std::byte* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

BatchUpload::BatchUpload(device::Device& device, device::CachingAllocator& allocator)
    : device_(device), allocator_(allocator), stream_(device.make_stream()) {
  for (Slot& slot : slots_) slot.copied = device.make_event();
}

BatchUpload::~BatchUpload() {
  try {
    stream_->synchronize();
  } catch (const std::exception& error) {
    log_warning("the upload of a batch has failed: {}", error.what());
  }
}

// Two pinned buffers alternate. A buffer is overwritten only after its previous copy has completed,
// so the host runs at most two uploads ahead. The device memory belongs to stream_: note_use()
// keeps the allocator from reusing it before `user` has finished with the batch.
DeviceBatch BatchUpload::upload(const Batch& batch, device::Stream& user) {
  Slot& slot = slots_[next_++ % slots_.size()];
  slot.copied->synchronize();
  const BatchLayout layout(batch);
  if (slot.pinned.size() < layout.bytes) slot.pinned = device_.allocate_pinned(layout.bytes);
  copy_in(slot.pinned.data(), batch.inputs.data(), batch.inputs.count() * sizeof(float));
  copy_in(slot.pinned.data() + layout.labels, batch.labels.data(),
          std::span(batch.labels).size_bytes());
  copy_in(slot.pinned.data() + layout.samples, batch.samples.data(),
          std::span(batch.samples).size_bytes());

  const auto block =
      std::make_shared<BatchMemory>(stream_, allocator_.allocate(layout.bytes, *stream_));
  const std::shared_ptr<const device::Memory> memory(block, &block->memory);
  stream_->copy(memory->data(), slot.pinned.data(), layout.bytes);
  stream_->record(*slot.copied);
  user.wait(*slot.copied);
  allocator_.note_use(*memory, user);
  return {
      .rows = batch.labels.size(),
      .inputs = Tensor(batch.inputs.shape(), DataType::kFloat32, memory->data(), memory, &device_),
      .labels = reinterpret_cast<const std::int32_t*>(memory->data() + layout.labels),
      .samples = reinterpret_cast<const std::uint64_t*>(memory->data() + layout.samples),
      .memory = memory};
}

}  // namespace horo::ops

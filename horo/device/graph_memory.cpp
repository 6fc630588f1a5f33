#include "horo/device/graph_memory.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/device/caching_allocator.h"

namespace horo::device {

GraphMemory::GraphMemory(Device& device, std::shared_ptr<std::atomic<std::size_t>> reserved_bytes)
    : device_(device), reserved_bytes_(std::move(reserved_bytes)) {}

GraphMemory::~GraphMemory() {
  for (const Memory& piece : pieces_) *reserved_bytes_ -= piece.size();
}

Memory GraphMemory::allocate(std::size_t bytes, Stream& stream) {
  const std::scoped_lock lock(mutex_);
  const std::size_t size = block_size(bytes);
  std::byte* data = take(size, stream.native());
  if (data == nullptr) {
    add_piece(size, bytes);
    data = take(size, stream.native());
  }
  in_use_[data] = {size, stream.native()};
  return {data, bytes, [self = shared_from_this()](void* memory) { self->put_back(memory); }};
}

bool GraphMemory::note_use(const void* data, Stream& stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = in_use_.find(data);
  if (found == in_use_.end()) return false;
  if (found->second.stream != stream.native()) found->second.is_shared = true;
  return true;
}

std::byte* GraphMemory::take(std::size_t size, void* stream) {
  for (std::vector<std::byte*>* blocks : {&freed_[{size, stream}], &unused_[size]}) {
    if (blocks->empty()) continue;
    std::byte* data = blocks->back();
    blocks->pop_back();
    return data;
  }
  return nullptr;
}

// Unlike the caching allocator, this function cannot free cached memory and retry. Freeing waits
// for the device, which is forbidden during a capture.
void GraphMemory::add_piece(std::size_t size, std::size_t asked) {
  const std::size_t count = blocks_at_once(size);
  try {
    pieces_.push_back(device_.allocate(size * count));
  } catch (const DeviceError& error) {
    throw DeviceError(
        fmt::format("no memory for {} bytes of a graph that is being captured: {}. Call trim() "
                    "before the capture, use a smaller batch, or free what is not needed",
                    asked, error.what()));
  }
  *reserved_bytes_ += size * count;
  for (std::size_t i = count; i-- > 0;) unused_[size].push_back(pieces_.back().data() + i * size);
}

// A block is reused only by the stream for which it was allocated, since the graph runs the work of
// one stream in order. A block that other streams used is not reused in this graph.
void GraphMemory::put_back(void* data) {
  const std::scoped_lock lock(mutex_);
  const auto found = in_use_.find(data);
  const Block block = found->second;
  in_use_.erase(found);
  if (!block.is_shared) freed_[{block.size, block.stream}].push_back(static_cast<std::byte*>(data));
}

}  // namespace horo::device

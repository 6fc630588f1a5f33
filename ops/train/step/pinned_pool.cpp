#include "ops/train/step/pinned_pool.h"

#include <map>
#include <mutex>
#include <utility>

namespace horo::ops {

// Shared with all memory in use, which may be freed after the pool.
struct PinnedPool::State {
  device::Device& device;
  std::mutex mutex;
  std::multimap<std::size_t, device::Memory> free;  // by size; guarded by mutex

  device::Memory take(std::size_t bytes) {
    {
      const std::scoped_lock lock(mutex);
      if (auto found = free.extract(bytes)) return std::move(found.mapped());
    }
    return device.allocate_pinned(bytes);
  }
  void put_back(device::Memory memory) {
    const std::scoped_lock lock(mutex);
    free.emplace(memory.size(), std::move(memory));
  }
};

PinnedPool::PinnedPool(device::Device& device) : state_(new State{device, {}, {}}) {}

device::Memory PinnedPool::allocate(std::size_t bytes) {
  auto block = std::make_shared<device::Memory>(state_->take(bytes));
  std::byte* const data = block->data();
  return {data, bytes, [state = state_, block = std::move(block)](void*) {
            state->put_back(std::move(*block));
          }};
}

}  // namespace horo::ops

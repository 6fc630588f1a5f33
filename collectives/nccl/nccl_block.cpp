#include "collectives/nccl/nccl_block.h"

#include <iterator>
#include <map>
#include <utility>

#include "collectives/nccl/nccl_buffers.h"
#include "collectives/nccl/nccl_library.h"
#include "horo/device/outside_of_captures.h"

namespace horo::collectives {
namespace {

// The blocks in use, by address.
class BlocksInUse {
 public:
  void add(const std::shared_ptr<NcclBlock>& block) {
    const std::scoped_lock lock(mutex_);
    blocks_[block->data()] = block;
  }
  void remove(const NcclBlock& block) {
    const std::scoped_lock lock(mutex_);
    blocks_.erase(block.data());
  }
  // Returns the block with the highest address that is not above `data`.
  std::shared_ptr<NcclBlock> find(const std::byte* data) const {
    const std::scoped_lock lock(mutex_);
    const auto after = blocks_.upper_bound(data);
    return after == blocks_.begin() ? nullptr : std::prev(after)->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<NcclBlock>> blocks_;  // guarded by mutex_
};

BlocksInUse& blocks_in_use() {
  // Never destroyed, because a program may free memory while exit() runs destructors.
  static auto* blocks = new BlocksInUse;
  return *blocks;
}

}  // namespace

std::shared_ptr<NcclBlock> NcclBlock::allocate(std::size_t bytes, std::string& obstacle) {
  const NcclLibrary& library = nccl();
  void* memory = nullptr;
  if (library.mem_alloc == nullptr || library.mem_free == nullptr) {
    obstacle = "this NCCL has no ncclMemAlloc";
    return nullptr;
  }
  const device::OutsideOfCaptures allowed;
  const ncclResult_t result = library.mem_alloc(&memory, bytes);
  if (result != ncclSuccess || memory == nullptr) {
    obstacle = std::string("ncclMemAlloc failed: ") + library.get_error_string(result);
    return nullptr;
  }
  return std::shared_ptr<NcclBlock>(new NcclBlock(memory, bytes));
}

std::shared_ptr<NcclBlock> NcclBlock::find(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  std::shared_ptr<NcclBlock> block = blocks_in_use().find(begin);
  const bool contains = block != nullptr && begin + bytes <= block->data() + block->bytes();
  return contains ? block : nullptr;
}

NcclBlock::~NcclBlock() {
  const device::OutsideOfCaptures allowed;
  nccl().mem_free(data_);
}

device::Memory NcclBlock::own() {
  blocks_in_use().add(shared_from_this());
  return {data_, bytes_, [block = shared_from_this()](void*) mutable {
            blocks_in_use().remove(*block);
            block->deregister();
            block.reset();
          }};
}

void NcclBlock::add_list(std::weak_ptr<NcclBuffers> list) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(lists_, [](const auto& entry) { return entry.expired(); });
  lists_.push_back(std::move(list));
}

// A list may outlive its communicator, and remove() then does nothing. The lists are called without
// mutex_, because remove() may release the last reference to this block but the caller's.
void NcclBlock::deregister() noexcept {
  std::vector<std::weak_ptr<NcclBuffers>> lists;
  {
    const std::scoped_lock lock(mutex_);
    lists.swap(lists_);
  }
  for (const auto& entry : lists)
    if (const auto list = entry.lock()) list->remove(data_);
}

}  // namespace horo::collectives

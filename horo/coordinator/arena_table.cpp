#include "horo/coordinator/arena_table.h"

#include <functional>

namespace horo::coordinator {

void ArenaTable::add(const std::shared_ptr<collectives::NodeBlock>& block) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(blocks_, [](const auto& entry) { return entry.second.expired(); });
  blocks_.emplace(++last_number_, block);
}

ArenaTable::Place ArenaTable::find(const void* data, std::size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [number, weak] : blocks_) {
    const auto block = weak.lock();
    if (block == nullptr) continue;
    const std::span<std::byte> own = block->own();
    const auto* begin = static_cast<const std::byte*>(data);
    const std::less_equal<const std::byte*> not_after;
    if (not_after(own.data(), begin) && not_after(begin + bytes, own.data() + own.size()))
      return {number, static_cast<std::uint64_t>(begin - own.data())};
  }
  return {};
}

std::shared_ptr<collectives::NodeBlock> ArenaTable::block(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(number);
  return found == blocks_.end() ? nullptr : found->second.lock();
}

}  // namespace horo::coordinator

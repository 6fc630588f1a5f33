#include "collectives/alltoall_blocks.h"

#include <cstring>

namespace horo::collectives {
namespace {

template <typename Byte>
std::vector<std::span<Byte>> cut(std::span<Byte> bytes, std::span<const std::size_t> sizes) {
  std::vector<std::span<Byte>> blocks;
  blocks.reserve(sizes.size());
  for (const std::size_t size : sizes) {
    blocks.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return blocks;
}

}  // namespace

AlltoallBlocks::AlltoallBlocks(std::span<const std::byte> input,
                               std::span<const std::size_t> bytes_to, std::span<std::byte> output,
                               std::span<const std::size_t> bytes_from)
    : to_(cut(input, bytes_to)), from_(cut(output, bytes_from)) {}

void AlltoallBlocks::copy_own(int rank) const {
  if (!to(rank).empty()) std::memcpy(from(rank).data(), to(rank).data(), to(rank).size());
}

void AlltoallBlocks::drop(int rank) {
  to_[static_cast<std::size_t>(rank)] = {};
  from_[static_cast<std::size_t>(rank)] = {};
}

}  // namespace horo::collectives

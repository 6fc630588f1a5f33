// Compiled once for each instruction set, with HORO_KERNELS naming its namespace.
#include "collectives/reduce/copy_kernels.h"

#include <cstdint>

#include "collectives/reduce/lanes.h"

namespace horo::collectives::HORO_KERNELS {
namespace {

using Block = Vector<std::uint64_t>;
// Loads in flight before the first of their stores.
constexpr std::size_t kBlocksPerStrip = 4;
constexpr std::size_t kStripBytes = kBlocksPerStrip * sizeof(Block);

void store_aligned(std::byte* to, Block value) {
  __builtin_memcpy(__builtin_assume_aligned(to, sizeof(Block)), &value, sizeof value);
}

template <void Store(std::byte*, Block)>
void copy_strips(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = bytes_to_aligned(to, 64) < bytes ? bytes_to_aligned(to, 64) : bytes;
  __builtin_memcpy(to, from, at);
  for (; at + kStripBytes <= bytes; at += kStripBytes) {
    Block strip[kBlocksPerStrip];
    for (std::size_t b = 0; b < kBlocksPerStrip; ++b)
      strip[b] = load_bytes<Block>(from + at + b * sizeof(Block));
    for (std::size_t b = 0; b < kBlocksPerStrip; ++b) Store(to + at + b * sizeof(Block), strip[b]);
  }
  __builtin_memcpy(to + at, from + at, bytes - at);
}

}  // namespace

void plain_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_strips<store_aligned>(to, from, bytes);
}

void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_strips<store_streaming<Block>>(to, from, bytes);
}

void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace horo::collectives::HORO_KERNELS

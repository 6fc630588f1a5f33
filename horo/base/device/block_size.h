#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace horo::device {

/// What a request for `bytes` bytes gets: the next of 8 sizes per power of two, at least 512 and a
/// multiple of that. So up to 4 KiB at most 511 bytes are wasted, and above an eighth.
constexpr std::size_t block_size(std::size_t bytes) {
  if (bytes <= 512) return 512;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes - 1) / 8, 512);
  return (bytes + step - 1) / step * step;
}

/// How many blocks of that size are asked of the driver at once: as many as fit in 2 MiB.
constexpr std::size_t blocks_at_once(std::size_t block_bytes) {
  return std::max<std::size_t>((std::size_t{2} << 20) / block_bytes, 1);
}

}  // namespace horo::device

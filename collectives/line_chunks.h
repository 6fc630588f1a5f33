#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/chunks.h"

namespace horo::collectives {

/// The elements of `count` that `rank` of `ranks` owns, dealt in units of a cache line, so that no
/// two ranks write to the same line of a buffer that begins at one.
inline Range chunk_of_lines(std::size_t count, std::size_t element_bytes, int ranks, int rank) {
  constexpr std::size_t kLine = 64;
  const std::size_t per_line = kLine / element_bytes;
  const Range lines = chunk_of((count + per_line - 1) / per_line, ranks, rank);
  return {std::min(lines.begin * per_line, count), std::min(lines.end * per_line, count)};
}

}  // namespace horo::collectives

#pragma once

#include <algorithm>
#include <cstddef>

namespace horo::collectives {

/// MPI counts are ints; longer transfers travel in pieces of at most this many bytes.
inline constexpr std::size_t kLargestMpiMessage = std::size_t{1} << 30;

/// Calls function(offset, count) for pieces of [0, total) of at most `largest`, in order; once,
/// with count 0, if there is nothing. Both ends of a transfer cut alike.
template <typename Function>
void for_each_piece(std::size_t total, std::size_t largest, Function&& function) {
  std::size_t offset = 0;
  do {
    const std::size_t count = std::min(largest, total - offset);
    function(offset, static_cast<int>(count));
    offset += count;
  } while (offset < total);
}

}  // namespace horo::collectives

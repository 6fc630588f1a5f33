#pragma once

#include <algorithm>
#include <cstddef>

namespace horo::collectives {

/// MPI counts are ints, so larger transfers are split into messages of at most this many bytes.
inline constexpr std::size_t kLargestMpiMessage = std::size_t{1} << 30;

/// Calls function(offset, count) for the pieces of [0, total), each of at most `largest`, in order.
/// If total is 0, calls it once with count 0. Both ends of a transfer compute the same pieces.
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

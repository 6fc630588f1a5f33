#pragma once

#include <algorithm>
#include <cstddef>

namespace horo::collectives {

/// A transfer of more bytes is split into messages of at most this size, because MPI counts are
/// ints.
inline constexpr std::size_t kLargestMpiMessage = std::size_t{1} << 30;

/// Calls function(offset, count) for the pieces of [0, total) in order. Each piece except the last
/// has a count of `largest`; the last one may be smaller. If total is 0, calls the function once
/// with count 0. `largest` must fit into an int. Both ends of a transfer must pass the same
/// arguments.
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

#pragma once

#include <algorithm>
#include <cstddef>

namespace horo::collectives {

/// Transfers of more bytes are split into messages of at most this size, because MPI counts are
/// ints.
inline constexpr std::size_t kLargestMpiMessage = std::size_t{1} << 30;

/// Calls function(offset, count) for the pieces of [0, total) in order. Each piece has a count of
/// at most `largest`. If total is 0, calls the function once with count 0. Both ends of a transfer
/// compute the same pieces.
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

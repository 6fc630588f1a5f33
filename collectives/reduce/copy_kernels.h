#pragma once

// Part of the kernels that are compiled once per instruction set; see lanes.h for the rule that its
// code follows.

#include <cstddef>

namespace horo::collectives::HORO_KERNELS {

/// Copy bytes that do not overlap, at any alignment, with the widest stores of the instruction set,
/// aligned: through the cache, and past it.
void plain_copy(std::byte* to, const std::byte* from, std::size_t bytes);
void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes);
/// Makes streaming stores visible before any later store.
void fence();

}  // namespace horo::collectives::HORO_KERNELS

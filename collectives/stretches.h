#pragma once

#include <cstddef>

#include "collectives/chunks.h"
#include "collectives/scattered_buffer.h"

namespace horo::collectives {

/// Where the elements `range` lie, if they lie in one piece; otherwise, and for an empty range,
/// null.
std::byte* contiguous_address(const ScatteredBuffer& buffer, Range range);
/// Copies the elements `range` of the buffer to `to`.
void gather(const ScatteredBuffer& buffer, Range range, std::byte* to);
/// Copies `from` to the elements `range` of the buffer.
void scatter(const ScatteredBuffer& buffer, Range range, const std::byte* from);
/// The elements `range` as a buffer of their own, over the same memory.
ScatteredBuffer part_of(const ScatteredBuffer& buffer, Range range);

}  // namespace horo::collectives

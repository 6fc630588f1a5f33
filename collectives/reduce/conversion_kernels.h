#pragma once

// Part of the kernels that are compiled once per instruction set; see lanes.h for the rule that its
// code follows.

#include <cstddef>

namespace horo::collectives::HORO_KERNELS {

/// float32 to a 16-bit float, rounded to nearest, ties to even; and back, exactly. Any alignment;
/// no overlap.
void narrow_to_float16(std::byte* to, const std::byte* from, std::size_t count);
void narrow_to_bfloat16(std::byte* to, const std::byte* from, std::size_t count);
void widen_from_float16(std::byte* to, const std::byte* from, std::size_t count);
void widen_from_bfloat16(std::byte* to, const std::byte* from, std::size_t count);

}  // namespace horo::collectives::HORO_KERNELS

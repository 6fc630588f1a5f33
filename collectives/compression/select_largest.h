#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::collectives {

/// Writes the indices of the indices.size() values of largest magnitude to `indices`, ascending. Of
/// equal magnitudes the lower index wins; NaN counts as larger than infinity. Requires at most
/// values.size() indices, and values.size() <= 2^32. Finds the least magnitude by counting its
/// leading, middle and last bits: four passes over the values, no copy of them.
void select_largest(std::span<const float> values, std::span<std::uint32_t> indices);

}  // namespace horo::collectives

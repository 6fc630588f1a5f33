#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::ops::cpu {

/// Draws which features of which samples survive: kept[s * features + f] is 0 with probability
/// `drop_probability` (in [0, 1)) and 1 otherwise. A sample's row depends only on `key` and on its
/// own entry of `samples` (its global index), so it is the same whichever rank holds the sample and
/// whatever else is in the batch. Length of `kept`: samples.size() * features.
void draw_dropout_mask(std::uint64_t key, std::span<const std::uint64_t> samples,
                       std::size_t features, float drop_probability, std::span<std::uint8_t> kept);

/// values[i] becomes values[i] * factor where kept, 0 elsewhere; in place. Forward and backward are
/// the same operation.
void apply_dropout(std::span<float> values, std::span<const std::uint8_t> kept, float factor);

}  // namespace horo::ops::cpu

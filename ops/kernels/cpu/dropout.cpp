#include "ops/kernels/cpu/dropout.h"

#include <algorithm>

#include "ops/kernels/philox.h"

namespace horo::ops::cpu {

void draw_dropout_mask(std::uint64_t key, std::span<const std::uint64_t> samples,
                       std::size_t features, float drop_probability, std::span<std::uint8_t> kept) {
  const auto threshold = static_cast<std::uint64_t>(static_cast<double>(drop_probability) * 0x1p32);
  auto* row = kept.data();
  for (const std::uint64_t sample : samples) {
    for (std::size_t feature = 0; feature < features; feature += 4) {
      const auto words = philox(key, sample, feature / 4);
      const std::size_t count = std::min<std::size_t>(4, features - feature);
      for (std::size_t i = 0; i < count; ++i) row[feature + i] = words[i] >= threshold ? 1 : 0;
    }
    row += features;
  }
}

void apply_dropout(std::span<float> values, std::span<const std::uint8_t> kept, float factor) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = kept[i] != 0 ? values[i] * factor : 0.0f;
  }
}

}  // namespace horo::ops::cpu

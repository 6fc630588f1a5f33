#include "ops/data/datasets/coloured_digits_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/data/datasets/digit_renderer.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

namespace {

constexpr std::size_t kImageSide = ColouredDigitsDataset::kSide;
constexpr std::size_t kPlane = kImageSide * kImageSide;

using Colour = std::array<float, 3>;

Colour any_colour(RandomStream& random) {
  Colour colour{};
  for (float& part : colour) part = random.uniform(-1.5f, 1.5f);
  return colour;
}

float distance(const Colour& a, const Colour& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/// Draws colours until one has enough contrast to `ground`. The number of draws depends only on the
/// random stream, so a sample has the same pixels on every rank.
Colour colour_on(const Colour& ground, RandomStream& random) {
  for (;;) {
    const Colour colour = any_colour(random);
    if (distance(colour, ground) > 1.2f) return colour;
  }
}

}  // namespace

std::int32_t ColouredDigitsDataset::copy_sample(std::size_t index, std::span<float> values) const {
  check_copy(index, values.size());
  const std::uint64_t set = combine_keys(options_.seed, options_.split == Split::kTrain ? 3 : 4);
  const std::uint64_t key = combine_keys(set, index);
  const auto label = static_cast<std::int32_t>(key % 10);
  const DigitImage digit = render_digit(label, key);
  RandomStream random(combine_keys(key, 1));
  const Colour ground = any_colour(random);
  const Colour ink = colour_on(ground, random);
  const std::size_t top = random.below(kImageSide - kDigitSide + 1);
  const std::size_t left = random.below(kImageSide - kDigitSide + 1);
  for (std::size_t channel = 0; channel < ink.size(); ++channel) {
    float* const plane = values.data() + channel * kPlane;
    std::fill_n(plane, kPlane, ground[channel]);
    for (std::size_t i = 0; i < digit.size(); ++i) {
      const float cover = static_cast<float>(digit[i]) / 255;
      plane[(top + i / kDigitSide) * kImageSide + left + i % kDigitSide] +=
          cover * (ink[channel] - ground[channel]);
    }
  }
  return label;
}

}  // namespace horo::ops

#include "ops/data/dataset.h"

#include <fmt/core.h>

#include <cstring>

#include "horo/base/error.h"

namespace horo::ops {

void LabelledImages::check_copy(std::size_t index, std::size_t value_count) const {
  HORO_CHECK(index < size(), fmt::format("sample {} of a data set of {}", index, size()));
  HORO_CHECK(value_count == sample_shape().count(),
             fmt::format("a sample has shape {}, the buffer for it has {} values",
                         sample_shape().to_string(), value_count));
}

void LabelledImages::read(std::size_t index, std::span<std::byte> input,
                          std::span<std::byte> target) const {
  const std::int32_t label =
      copy_sample(index, {reinterpret_cast<float*>(input.data()), input.size() / sizeof(float)});
  std::memcpy(target.data(), &label, sizeof label);
}

std::int32_t PixelImages::copy_sample(std::size_t index, std::span<float> values) const {
  check_copy(index, values.size());
  thread_local std::vector<std::uint8_t> pixels;
  pixels.resize(values.size());
  const std::int32_t label = copy_pixels(index, pixels);
  const std::vector<PixelScale> scales = pixel_scales();
  const std::size_t plane = values.size() / scales.size();
  for (std::size_t c = 0; c < scales.size(); ++c)
    normalise_pixels(std::span(pixels).subspan(c * plane, plane), scales[c],
                     values.subspan(c * plane, plane));
  return label;
}

}  // namespace horo::ops

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// Mean and standard deviation of a data set's pixels, as fractions of 255.
struct PixelScale {
  float mean = 0.0f;
  float deviation = 1.0f;
};

/// values[i] = (pixels[i] / 255 - mean) / deviation. Both have the same length.
inline void normalise_pixels(std::span<const std::uint8_t> pixels, const PixelScale& scale,
                             std::span<float> values) {
  const float factor = 1.0f / (255.0f * scale.deviation);
  const float offset = scale.mean / scale.deviation;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(pixels[i]) * factor - offset;
}

/// A finite set of labelled samples of one shape, addressed by index. All members may be called
/// from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  /// The shape of one sample without the batch dimension: [channels, height, width].
  virtual Shape sample_shape() const = 0;
  /// Labels are 0 ... class_count() - 1.
  virtual std::size_t class_count() const = 0;

  /// Writes sample `index` to `values`, normalised to about zero mean and unit variance over the
  /// set, and returns its label. Deterministic. `values` must have sample_shape().count() elements.
  /// Throws InvalidArgument if `index` is not below size() or `values` has another length.
  virtual std::int32_t copy_sample(std::size_t index, std::span<float> values) const = 0;

 protected:
  /// Checks the arguments of copy_sample().
  void check_copy(std::size_t index, std::size_t value_count) const;
};

/// The two parts of a data set, which have no sample in common.
enum class Split { kTrain, kTest };

}  // namespace horo::ops

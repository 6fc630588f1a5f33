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

/// The form of one part of a sample: its input or its target.
struct SampleForm {
  Shape shape;  ///< without the batch dimension; [] for one value
  DataType type = DataType::kFloat32;

  std::size_t bytes() const { return shape.count() * size_of(type); }
  friend bool operator==(const SampleForm&, const SampleForm&) = default;
};

/// A finite set of samples of one form, addressed by index. A sample has an input for the model and
/// a target with which the loss compares its output. All members may be called from several threads
/// at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  virtual SampleForm input() const = 0;
  virtual SampleForm target() const = 0;
  /// Writes the sample `index` to `input` and `target`, which have input().bytes() and
  /// target().bytes() and are aligned for their types. Deterministic. Throws InvalidArgument if
  /// `index` is not below size().
  virtual void read(std::size_t index, std::span<std::byte> input,
                    std::span<std::byte> target) const = 0;
};

/// Images with one label each.
class LabelledImages : public Dataset {
 public:
  /// The shape of one sample without the batch dimension: [channels, height, width].
  virtual Shape sample_shape() const = 0;
  /// Labels are 0 ... class_count() - 1.
  virtual std::size_t class_count() const = 0;

  /// Writes sample `index` to `values`, normalised to about zero mean and unit variance over the
  /// set, and returns its label. Deterministic. `values` must have sample_shape().count() elements.
  /// Throws InvalidArgument if `index` is not below size() or `values` has another length.
  virtual std::int32_t copy_sample(std::size_t index, std::span<float> values) const = 0;

  SampleForm input() const final { return {sample_shape(), DataType::kFloat32}; }
  SampleForm target() const final { return {{}, DataType::kInt32}; }
  void read(std::size_t index, std::span<std::byte> input, std::span<std::byte> target) const final;

 protected:
  /// Checks the arguments of copy_sample().
  void check_copy(std::size_t index, std::size_t value_count) const;
};

/// The two parts of a data set, which have no sample in common.
enum class Split { kTrain, kTest };

}  // namespace horo::ops

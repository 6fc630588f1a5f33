#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "horo/base/tensor_view.h"
#include "ops/tensor/pixel_scale.h"

namespace horo::ops {

/// The form of one part of a sample: its input or its target.
struct SampleForm {
  Shape shape;                         ///< without the batch dimension; [] for one value
  DataType type = DataType::kFloat32;  ///< of the elements

  /// The size of the part in bytes.
  std::size_t bytes() const { return shape.count() * size_of(type); }
  /// Whether all members are equal.
  friend bool operator==(const SampleForm&, const SampleForm&) = default;
};

/// A finite set of samples of one form, addressed by index. A sample has an input for the model and
/// a target with which the loss compares its output. All members may be called from several threads
/// at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The number of samples.
  virtual std::size_t size() const = 0;
  /// The form of the input of every sample.
  virtual SampleForm input() const = 0;
  /// The form of the target of every sample.
  virtual SampleForm target() const = 0;
  /// Writes the sample `index` to `input` and `target`, which have input().bytes() and
  /// target().bytes() and are aligned for their types. Deterministic. Throws InvalidArgument if
  /// `index` is not below size(), and Error, which names the file, if the sample cannot be read.
  virtual void read(std::size_t index, std::span<std::byte> input,
                    std::span<std::byte> target) const = 0;
  /// The name of a sample for error messages, such as its file. Empty: only the index is named.
  virtual std::string name_of(std::size_t /*index*/) const { return {}; }
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

/// Images whose values are bytes, the pixels, before they are normalised.
class PixelImages : public LabelledImages {
 public:
  /// One scale per channel; see normalise_pixels().
  virtual std::vector<PixelScale> pixel_scales() const = 0;
  /// As copy_sample(), without the normalisation: writes the pixels [channels, height, width].
  virtual std::int32_t copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const = 0;

  std::int32_t copy_sample(std::size_t index, std::span<float> values) const final;
};

/// The two parts of a data set, which have no sample in common.
enum class Split { kTrain, kTest };

}  // namespace horo::ops

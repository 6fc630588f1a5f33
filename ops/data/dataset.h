#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/base/tensor_view.h"

namespace horo::ops {

/// A finite set of labelled samples of one shape, addressed by index. All members may be called
/// from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  /// Of one sample, without the batch dimension: [channels, height, width].
  virtual Shape sample_shape() const = 0;
  /// Labels are 0 ... class_count() - 1.
  virtual std::size_t class_count() const = 0;

  /// Writes sample `index` to `values`, normalised to about zero mean and unit variance over the
  /// set, and returns its label. `values` has sample_shape().count() elements. Always the same for
  /// the same index. Throws InvalidArgument if `index` is not below size() or `values` has another
  /// length.
  virtual std::int32_t copy_sample(std::size_t index, std::span<float> values) const = 0;

 protected:
  /// Throws what copy_sample() promises.
  void check_copy(std::size_t index, std::size_t value_count) const;
};

/// Which part of a data set: the two have no sample in common.
enum class Split { kTrain, kTest };

}  // namespace horo::ops

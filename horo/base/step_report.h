#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/data_type.h"

namespace horo {

/// The savings and the rounding error of a wire type on this rank, since the GradientSync was made
/// or last updated.
struct WireReport {
  std::uint64_t bytes_sent = 0;   ///< bytes of the wire type sent to other ranks
  std::uint64_t bytes_saved = 0;  ///< additional bytes that float32 would take
  /// Sums of squares over a sample of about one in 64 of the rounded values: of their rounding
  /// errors, and of the values before rounding.
  double squared_error = 0;
  double squared_values = 0;  ///< see `squared_error`
  /// The number of finite values in the sample that became infinite, because they exceed the range
  /// of the wire type.
  std::uint64_t overflowed = 0;

  /// Adds the figures of other steps or gradients.
  WireReport& operator+=(const WireReport& other) {
    bytes_sent += other.bytes_sent;
    bytes_saved += other.bytes_saved;
    squared_error += other.squared_error;
    squared_values += other.squared_values;
    overflowed += other.overflowed;
    return *this;
  }
  /// The norm of the rounding errors divided by the norm of the values (Euclidean norms), in the
  /// sample; 0 if nothing was rounded.
  double relative_error() const {
    return squared_values > 0 ? std::sqrt(squared_error / squared_values) : 0;
  }
};

/// The result of a pass of a GradientSync. After a pass that exchanges, every rank has the same
/// report. So all ranks can make the same decision from the report, such as to skip the step or to
/// stop.
struct StepReport {
  /// False after a pass that only accumulates: nothing was exchanged, and nothing below is set.
  bool was_exchanged = false;
  /// The sum of the ranks' weights. Without GradientSyncOptions::weighted, this is the number of
  /// ranks. If no rank had data, this is 0, and all gradients are zero.
  double total_weight = 0;
  /// With clip_norm or check_finite: the L2 norm of all reduced floating point gradients except
  /// GradientSyncOptions::metrics, before clipping, summed in float64. Otherwise NaN.
  double norm = std::numeric_limits<double>::quiet_NaN();
  /// Whether the gradients were multiplied by clip_norm / norm.
  bool was_clipped = false;
  /// With clip_norm or check_finite: whether all reduced values are finite. If not, the caller
  /// should skip the step.
  bool is_finite = true;

  /// The origin of a non-finite value.
  struct NonFinite {
    /// The lowest rank that contributed a non-finite value. Ranks of weight 0 contribute nothing.
    /// -1 if finite values became non-finite in the reduction.
    int rank = -1;
    std::size_t gradient = 0;  ///< index in the registered list
    std::string name;          ///< name of the gradient
    std::size_t index = 0;     ///< element of the gradient
    double value = 0;          ///< the value: NaN or an infinity

    /// Returns a text such as "gradient 'fc1.weight' of rank 3 is nan at index 17".
    std::string describe() const;
  };
  /// With check_finite, if is_finite is false.
  std::optional<NonFinite> non_finite;
  /// With find_unused: the indices of the gradients that no rank marked, ascending. These gradients
  /// are zero.
  std::vector<std::size_t> unused_everywhere;
};

/// The location of a reduced gradient. The memory belongs to the program or to the GradientSync.
struct ReducedGradient {
  const void* data;  ///< address in the memory of the gradients, with the elements in their order
  DataType type;     ///< the type of the elements there, which may be the wire type
  double scale;      ///< the factor by which the reader must multiply each value
};

}  // namespace horo

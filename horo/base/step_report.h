#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace horo {

/// What a step of a GradientSync came to. Every rank has the same report, so what is decided by it
/// (to skip the step, to stop) is decided alike everywhere.
struct StepReport {
  /// False after a pass that only accumulates: nothing was exchanged, and nothing below is set.
  bool was_exchanged = false;
  /// Sum of the ranks' weights; without GradientSyncOptions::weighted the number of ranks. 0: no
  /// rank had data, and all gradients are zero.
  double total_weight = 0;
  /// With clip_norm or check_finite: the L2 norm of all reduced floating point gradients, metrics
  /// left out, before clipping; summed in float64. Otherwise NaN.
  double norm = std::numeric_limits<double>::quiet_NaN();
  /// The gradients were multiplied by clip_norm / norm.
  bool was_clipped = false;
  /// With clip_norm or check_finite: whether all reduced values are finite. If not, skip the step.
  bool is_finite = true;

  /// Where a value that is not finite came from.
  struct NonFinite {
    /// The lowest rank whose own values hold one, as the program wrote them, before its weight; one
    /// of weight 0 contributes none. -1: finite values became one when they were reduced.
    int rank = -1;
    std::size_t gradient = 0;  ///< index in the registered list
    std::string name;          ///< of the gradient
    std::size_t index = 0;     ///< element of the gradient
    double value = 0;

    /// "gradient 'fc1.weight' of rank 3 is nan at index 17"
    std::string describe() const;
  };
  /// With check_finite, if is_finite is false.
  std::optional<NonFinite> non_finite;
  /// With find_unused: indices of the gradients that no rank has marked, ascending; they are zero.
  std::vector<std::size_t> unused_everywhere;
};

}  // namespace horo

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "horo/base/data_type.h"
#include "horo/device/stream.h"

namespace horo::ops::device_kernels {

struct GradientTensor {
  const void* data;
  std::size_t count;
};

/// Gradients of one type and scale.
struct GradientGroup {
  DataType type;
  std::span<const GradientTensor> tensors;
  float scale = 1;  ///< of these, as GradientUse::scale
};

/// The result for all gradients, in device memory. No host thread waits for it.
struct GradientVerdict {
  /// The Euclidean norm of all gradients times GradientMeasure::scale, divided by the loss scale.
  /// Not finite if a gradient is not finite.
  double norm;
  /// The factor that unscales and clips the gradients; see GradientUse::factor.
  float factor;
  /// 1 if a gradient or GradientMeasure::also is not finite, else 0; see GradientUse::skip.
  std::uint32_t skip;
  /// The value of GradientMeasure::also; 0 without it.
  float also;
};

/// The factor of the loss that keeps small gradients of narrow types from underflow; in device
/// memory. Source: Micikevicius et al., "Mixed precision training" (ICLR 2018).
struct LossScale {
  float scale = 65536;
  std::uint32_t good_steps = 0;  ///< in a row
};

struct GradientMeasure {
  float scale = 1;  ///< of all gradients, in addition to that of their group
  /// Gradients with a larger norm are scaled to this norm.
  float max_norm = std::numeric_limits<float>::infinity();
  /// Another value that must be finite, such as the loss. Null: none.
  const float* also = nullptr;
  /// Updated after the verdict: halved if a gradient is not finite, doubled after `growth_interval`
  /// good steps in a row. Null: there is no loss scale.
  LossScale* loss_scale = nullptr;
  std::uint32_t growth_interval = 2000;
};

/// The number of doubles that measure_gradients() needs as `partial_sums`. For several groups, add
/// the numbers.
std::size_t count_partial_sums(std::span<const GradientTensor> gradients);

/// Measures gradients of float32, float16 or bfloat16. All pointers refer to device memory.
/// `partial_sums` has the size of count_partial_sums(). Does not block. Two launches, one more for
/// each group after the first and for each 1600 tensors. Sums are in double and without atomics, in
/// an order that depends only on sizes and alignments. Results therefore have the same bits in
/// every run, and equal values of different types give equal results. Cost: every gradient is read
/// once. Throws InvalidArgument for other types and for too few partial sums.
void measure_gradients(device::Stream& stream, std::span<const GradientGroup> groups,
                       std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure = {});
/// The same for one group.
void measure_gradients(device::Stream& stream, std::span<const GradientTensor> gradients,
                       DataType type, std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure = {});

}  // namespace horo::ops::device_kernels

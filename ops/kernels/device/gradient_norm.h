#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "horo/base/data_type.h"
#include "horo/base/device/stream.h"

namespace horo::ops::device_kernels {

struct GradientTensor {
  const void* data;
  std::size_t count;
};

/// Gradients of one type.
struct GradientGroup {
  DataType type;
  std::span<const GradientTensor> tensors;
  float scale = 1;  ///< of these, as GradientUse::scale
};

/// What all gradients together say, in memory of the device: nobody waits for it on the host.
struct GradientVerdict {
  /// Euclidean, of all gradients times GradientMeasure::scale and divided by the loss scale; not
  /// finite if one of them is not.
  double norm;
  /// What unscales and clips them: for GradientUse::factor, beside the same scale.
  float factor;
  /// 1 if one of them, or GradientMeasure::also, is not finite, else 0: for GradientUse::skip.
  std::uint32_t skip;
};

/// What the loss is multiplied with, so that narrow gradients do not vanish; in memory of the
/// device. Source: Micikevicius et al., "Mixed precision training" (ICLR 2018).
struct LossScale {
  float scale = 65536;
  std::uint32_t good_steps = 0;  ///< in a row
};

struct GradientMeasure {
  float scale = 1;  ///< of all gradients, beside that of their group
  /// Longer gradients are clipped to this length.
  float max_norm = std::numeric_limits<float>::infinity();
  /// What has to be finite too, such as the loss; null: nothing.
  const float* also = nullptr;
  /// Halved by a gradient that is not finite, doubled after `growth_interval` good steps in a row,
  /// once the verdict is given; null: there is none.
  LossScale* loss_scale = nullptr;
  std::uint32_t growth_interval = 2000;
};

/// How many doubles measure_gradients() works with; of several groups, the sum.
std::size_t count_partial_sums(std::span<const GradientTensor> gradients);

/// Measures gradients of float32, float16 or bfloat16. `partial_sums`, of count_partial_sums(), and
/// `verdict` are in memory of the device, as all else that is pointed to. Does not block. Two
/// launches (one more for each group beyond the first, and for each 1600 tensors), no atomics: sums
/// are in double, in an order that depends on the sizes and alignments alone, so they have the same
/// bits every run, and for the same values whatever their type. Cost: every gradient is read once.
/// Throws InvalidArgument for other types and too few sums.
void measure_gradients(device::Stream& stream, std::span<const GradientGroup> groups,
                       std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure = {});
/// The same of one group.
void measure_gradients(device::Stream& stream, std::span<const GradientTensor> gradients,
                       DataType type, std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure = {});

}  // namespace horo::ops::device_kernels

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "horo/base/device/block_reduction.h"
#include "ops/kernels/device/gradient_norm.h"
#include "ops/kernels/device/pieces.h"
#include "ops/kernels/device/tensor_table.h"

namespace horo::ops::device_kernels {

/// A block sums the squares of a tile. What is not finite makes the sum so; what is cannot, since
/// squares of floats are far from a double's end.
template <typename T>
struct SumSquares {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> sum;
  };
  struct Own {};

  TensorTable<GradientTensor> table;
  double* partial_sums;  // the table's
  float scale;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) shared.sum.give(place.thread, sum_of(place));
    if constexpr (kPhase == 1) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2)
      if (place.thread == 0) partial_sums[place.block] = shared.sum.result();
  }

 private:
  HORO_KERNEL double sum_of(const device::Place& place) const {
    const std::uint32_t tensor = table.find(place.block);
    const T* data = static_cast<const T*>(table.entry[tensor].data);
    const TileRange range = range_of(table, tensor, place.block);
    double sum = 0;
    const auto add = [&](auto piece, std::size_t at) {
      float values[decltype(piece)::kSize];
      load_piece(values, data + at);
      for (const float one : values) {
        const double value = scaled(one, scale);
        sum += value * value;
      }
    };
    for_each_piece<kGradientPiece>(range.begin, range.end, device::is_word_aligned(data),
                                   place.thread, kThreads, add);
    return sum;
  }
};

/// One block comes to the verdict.
struct JudgeGradients {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> sum;
  };
  struct Own {};

  const double* partial_sums;
  std::size_t count;
  GradientVerdict* verdict;
  GradientMeasure measure;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::Place& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      double sum = 0;
      for (std::size_t i = place.thread; i < count; i += kThreads) sum += partial_sums[i];
      shared.sum.give(place.thread, sum);
    }
    if constexpr (kPhase == 1) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2)
      if (place.thread == 0) judge(shared.sum.result());
  }

 private:
  HORO_KERNEL void judge(double sum) const {
    const float unscale = measure.loss_scale == nullptr ? 1.0f : 1 / measure.loss_scale->scale;
    const double norm =
        std::sqrt(sum) * static_cast<double>(measure.scale) * static_cast<double>(unscale);
    const bool is_finite =
        sum - sum == 0 && (measure.also == nullptr || *measure.also - *measure.also == 0);
    const double limit = measure.max_norm;
    const double clip = is_finite && norm > limit ? limit / norm : 1.0;
    *verdict = {norm, static_cast<float>(unscale * clip), is_finite ? 0u : 1u};
    if (measure.loss_scale != nullptr) adapt(*measure.loss_scale, is_finite);
  }
  HORO_KERNEL void adapt(LossScale& loss, bool is_finite) const {
    loss.good_steps = is_finite ? loss.good_steps + 1 : 0;
    if (!is_finite) loss.scale /= 2;
    if (loss.good_steps < measure.growth_interval) return;
    loss.good_steps = 0;
    if (loss.scale < 0x1p120f) loss.scale *= 2;
  }
};

}  // namespace horo::ops::device_kernels

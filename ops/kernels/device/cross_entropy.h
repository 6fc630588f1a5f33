#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/device/stream.h"
#include "horo/base/float16.h"

namespace horo::ops::device_kernels {

/// What one row of a batch says.
struct RowScore {
  float loss;
  std::uint32_t correct;
};

/// cpu::BatchScore, in memory of the device.
struct BatchScore {
  double loss;
  std::uint64_t correct;
};

struct CrossEntropy {
  std::size_t rows, classes;
  double normaliser;  ///< of the loss and its gradient: rows, for the mean
  /// The gradient alone is multiplied with this too, from memory of the device; null: it is not.
  const float* loss_scale = nullptr;
  /// The score's loss is written here too, in memory of the device; null: it is not.
  float* loss = nullptr;
};

/// cpu::softmax_cross_entropy() of `logits` [rows, classes]: writes the gradient (null: not
/// computed; may be `logits`) and the score. A label out of range makes its row's loss and gradient
/// NaN. `row_scores`, of `rows`, is for its own work. Two launches, nothing blocks; sums in a fixed
/// order: the same bits every run. T: float, Float16 or BFloat16; computed in float. Cost: logits
/// are read twice (the second time, mostly, from the cache), the gradient is written once. Source:
/// Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018).
template <typename T>
void softmax_cross_entropy(device::Stream& stream, const T* logits, const std::int32_t* labels,
                           const CrossEntropy& shape, T* gradient, RowScore* row_scores,
                           BatchScore* score);

}  // namespace horo::ops::device_kernels

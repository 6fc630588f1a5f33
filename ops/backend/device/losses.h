#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/float16.h"
#include "horo/device/stream.h"
#include "ops/backend/batch_score.h"

namespace horo::ops::device_kernels {

/// The result of one row of a batch.
struct RowScore {
  float loss;
  std::uint32_t correct, counted;
};

struct CrossEntropy {
  std::size_t rows, classes;
  double normaliser;  ///< of the loss and its gradient: rows, for the mean
  /// An additional factor of the gradient, but not of the loss, in device memory. Null: none.
  const float* loss_scale = nullptr;
  /// A second destination of the loss, in device memory. Null: none.
  float* loss = nullptr;
  CrossEntropyOptions options{};
};

/// Computes what cpu::softmax_cross_entropy() computes for `logits` [rows, classes]: the gradient
/// and the score. `gradient` may be null (not computed) or equal to `logits`. A label out of range
/// that is not ignored sets the loss and the gradient of its row to NaN. `row_scores` [rows] is
/// scratch memory. Two launches; does not block. Sums are in a fixed order, so results have the
/// same bits in every run. T is float, Float16 or BFloat16; the computation is in float. Cost:
/// logits are read twice, the second time mostly from the cache, and the gradient is written once.
/// Source: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018).
template <typename T>
void softmax_cross_entropy(device::Stream& stream, const T* logits, const std::int32_t* labels,
                           const CrossEntropy& shape, T* gradient, RowScore* row_scores,
                           BatchScore* score);

struct SquaredError {
  std::size_t rows, columns;
  double normaliser;
  const float* loss_scale = nullptr;  ///< as CrossEntropy::loss_scale
  float* loss = nullptr;              ///< as CrossEntropy::loss
};

/// Computes what cpu::squared_error() computes for `output` and `targets` [rows, columns].
/// Arguments and guarantees as above.
template <typename T>
void squared_error(device::Stream& stream, const T* output, const float* targets,
                   const SquaredError& shape, T* gradient, RowScore* row_scores, BatchScore* score);

}  // namespace horo::ops::device_kernels

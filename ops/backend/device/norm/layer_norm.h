#pragma once

#include <cstddef>

#include "horo/base/float16.h"
#include "horo/device/stream.h"

// Layer normalisation of rows. Activations have type T (float, Float16 or BFloat16); parameters and
// statistics are float, as is the computation. All pointers refer to device memory. Nothing blocks.
// Every sum is in a fixed order, so results have the same bits in every run. Source: Ba, Kiros,
// Hinton, "Layer normalization" (2016).
namespace horo::ops::device_kernels {

struct NormShape {
  std::size_t rows, columns;
};

/// The statistics of each row for the backward pass: [rows] each.
struct NormStatistics {
  float* mean;
  float* inverse_deviation;  ///< 1 / sqrt(variance + epsilon)
};

/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, row by row. gamma and beta have the
/// shape [columns]. One launch. Cost: y is written once; x is read once from memory and three times
/// from the cache.
template <typename T>
void layer_norm_forward(device::Stream& stream, T* y, const T* x, const float* gamma,
                        const float* beta, const NormShape& shape, float epsilon,
                        const NormStatistics& statistics);

/// The gradient by x. dx may be equal to dy. One launch. Cost: dx is written once; x and dy are
/// read once from memory and twice from the cache.
template <typename T>
void layer_norm_backward(device::Stream& stream, T* dx, const T* dy, const T* x, const float* gamma,
                         const NormShape& shape, const NormStatistics& statistics);

/// The number of floats that layer_norm_parameters_backward() needs as `sums`.
std::size_t count_norm_sums(const NormShape& shape);
/// Overwrites the gradients by gamma and beta, [columns] each. `sums` is scratch memory of
/// count_norm_sums() floats. Two launches. Call it before layer_norm_backward() if that overwrites
/// dy. Cost: x and dy are read once, and a sixteenth of that number of floats is written and read.
template <typename T>
void layer_norm_parameters_backward(device::Stream& stream, float* dgamma, float* dbeta,
                                    const T* dy, const T* x, const NormShape& shape,
                                    const NormStatistics& statistics, float* sums);

}  // namespace horo::ops::device_kernels

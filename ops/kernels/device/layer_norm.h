#pragma once

#include <cstddef>

#include "horo/base/device/stream.h"
#include "horo/base/float16.h"

// Layer normalisation of rows. Activations are of T (float, Float16 or BFloat16), parameters and
// statistics float; computed in float. All pointers are to memory of the device, nothing blocks,
// and every sum is in a fixed order: the same bits every run. Source: Ba, Kiros, Hinton, "Layer
// normalization" (2016).
namespace horo::ops::device_kernels {

struct NormShape {
  std::size_t rows, columns;
};

/// Of each row, for the backward pass: [rows] each.
struct NormStatistics {
  float* mean;
  float* inverse_deviation;  ///< 1 / sqrt(variance + epsilon)
};

/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, row by row; gamma, beta: [columns].
/// One launch. Cost: y is written and x read once, three times from the cache.
template <typename T>
void layer_norm_forward(device::Stream& stream, T* y, const T* x, const float* gamma,
                        const float* beta, const NormShape& shape, float epsilon,
                        const NormStatistics& statistics);

/// The gradient by x; dx may be dy. One launch. Cost: dx is written, x and dy are read once, twice
/// from the cache.
template <typename T>
void layer_norm_backward(device::Stream& stream, T* dx, const T* dy, const T* x, const float* gamma,
                         const NormShape& shape, const NormStatistics& statistics);

/// How many floats layer_norm_parameters_backward() works with.
std::size_t count_norm_sums(const NormShape& shape);
/// The gradients by gamma and beta, [columns] each, overwritten. `sums`, of count_norm_sums(), is
/// for its own work. Two launches. Before layer_norm_backward() if that overwrites dy. Cost: x and
/// dy are read once, and a sixteenth of as many floats is written and read.
template <typename T>
void layer_norm_parameters_backward(device::Stream& stream, float* dgamma, float* dbeta,
                                    const T* dy, const T* x, const NormShape& shape,
                                    const NormStatistics& statistics, float* sums);

}  // namespace horo::ops::device_kernels

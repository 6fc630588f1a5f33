#pragma once

#include <cstddef>

#include "horo/device/stream.h"

// The arithmetic, by channel, of a batch normalisation whose statistics are those of several ranks.
// Arrays are in the memory of the device of `stream`; one launch each, which does not block. If
// `stream` is null, they are in host memory, and the result is complete on return.
namespace horo::ops::device_kernels {

/// The statistics of the values of one rank, or of all ranks; float32 [channels] each.
struct ChannelMoments {
  float* mean;
  float* inverse_deviation;  ///< 1 / sqrt(biased variance + epsilon)
};

/// Writes sums [2 channels + 1]: the sum and the sum of squares of `count` values of each channel,
/// and the count. Sums over ranks of this array are the same for the values of all ranks. Elements
/// are float64, so that the variance keeps its precision if the mean is large.
void moments_to_sums(device::Stream* stream, double* sums, const ChannelMoments& moments,
                     std::size_t channels, std::size_t count, float epsilon);

/// The inverse; also writes the biased `variance` [channels], and updates the running statistics:
/// new = (1 - momentum) * old + momentum * value, with the unbiased variance.
void sums_to_moments(device::Stream* stream, const double* sums, const ChannelMoments& moments,
                     float* variance, float* running_mean, float* running_variance,
                     std::size_t channels, float momentum, float epsilon);

/// What the gradient by the input of one rank lacks: the gradients of the statistics by the values
/// of all ranks. With the normalised value v, it is factor * v + offset, float32 [channels] each.
/// own: the gradients by scale and shift of this rank, of `count` values. totals [2 channels]: the
/// sums over the ranks of those by scale, then by shift. `total_count` points to one value.
void gradient_correction(device::Stream* stream, float* factor, float* offset,
                         const float* own_scale, const float* own_shift, const double* totals,
                         const double* total_count, const float* scale,
                         const float* inverse_deviation, std::size_t channels, std::size_t count);

/// Writes both arrays [channels] to `to` [2 channels] as float64.
void join_as_double(device::Stream* stream, double* to, const float* first, const float* second,
                    std::size_t channels);

}  // namespace horo::ops::device_kernels

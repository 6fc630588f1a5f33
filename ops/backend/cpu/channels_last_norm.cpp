#include "ops/backend/cpu/channels_last_norm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace horo::ops::cpu {
namespace {

constexpr std::size_t kChunk = 256;  // rows
constexpr std::size_t kStrip = 16;   // channels whose values stay in registers

/// Calls use(first channel, count) for strips of channels. `count` is a constant except in the last
/// strip, so that the compiler unrolls the loops over a strip.
template <typename Use>
void for_each_strip(std::size_t channels, const Use& use) {
  std::size_t first = 0;
  for (; first + kStrip <= channels; first += kStrip)
    use(first, std::integral_constant<std::size_t, kStrip>{});
  if (first < channels) use(first, channels - first);
}

std::size_t count_chunks(std::size_t rows) { return (rows + kChunk - 1) / kChunk; }

/// Calls use(chunk, first row, last row), with several threads.
template <typename Use>
void for_each_chunk(std::size_t rows, const Use& use) {
#pragma omp parallel for schedule(static)
  for (std::size_t chunk = 0; chunk < count_chunks(rows); ++chunk)
    use(chunk, chunk * kChunk, std::min(rows, (chunk + 1) * kChunk));
}

/// The total of one of the two sums of a channel.
double total_of(const std::vector<float>& sums, std::size_t rows, std::size_t channels,
                std::size_t which, std::size_t channel) {
  double total = 0;
  for (std::size_t chunk = 0; chunk < count_chunks(rows); ++chunk)
    total += static_cast<double>(sums[(2 * chunk + which) * channels + channel]);
  return total;
}

/// y = (x - mean) * factor + shift, plus an addend, through a ReLU.
struct Normalise {
  const float* x;
  const float* addend;
  float* y;
  bool has_relu;
  const float* mean;
  const float* factor;
  const float* shift;

  template <bool kHasAddend, bool kHasRelu>
  void rows(std::size_t first, std::size_t last, std::size_t channels) const {
    for_each_strip(channels, [&](std::size_t channel, auto count) {
      for (std::size_t row = first; row < last; ++row) {
        const std::size_t at = row * channels + channel;
#pragma omp simd
        for (std::size_t c = 0; c < count; ++c) {
          float value = (x[at + c] - mean[channel + c]) * factor[channel + c] + shift[channel + c];
          if constexpr (kHasAddend) value += addend[at + c];
          if constexpr (kHasRelu) value = value <= 0.0f ? 0.0f : value;  // NaN stays NaN
          y[at + c] = value;
        }
      }
    });
  }
  void operator()(std::size_t first, std::size_t last, std::size_t channels) const {
    if (addend != nullptr)
      has_relu ? rows<true, true>(first, last, channels) : rows<true, false>(first, last, channels);
    else
      has_relu ? rows<false, true>(first, last, channels)
               : rows<false, false>(first, last, channels);
  }
};

/// The gradient by the normalised values: 0 where a ReLU has set the output to zero. `y` is null
/// without a ReLU.
template <bool kHasRelu>
float gradient_at(const float* dy, const float* y, std::size_t at) {
  if constexpr (kHasRelu) return y[at] <= 0.0f ? 0.0f : dy[at];
  return dy[at];
}

}  // namespace

ChannelsLastNorm::ChannelsLastNorm(const ImageBatch& shape, float epsilon)
    : sums_(2 * shape.channels * count_chunks(shape.count() / shape.channels)),
      rows_(shape.count() / shape.channels),
      channels_(shape.channels),
      epsilon_(epsilon) {}

// The sums are those of the distances from the first row, and of their squares. A channel's first
// value is about as far from the mean as the others, so the variance loses no precision if the mean
// is large.
void ChannelsLastNorm::forward_training(const BatchNormTraining& arrays) {
  const auto* const x = static_cast<const float*>(arrays.input);
  for_each_chunk(rows_, [&](std::size_t chunk, std::size_t first, std::size_t last) {
    for_each_strip(channels_, [&](std::size_t channel, auto count) {
      float origin[kStrip], sum[kStrip] = {}, squares[kStrip] = {};
      for (std::size_t c = 0; c < count; ++c) origin[c] = x[channel + c];
      for (std::size_t row = first; row < last; ++row) {
        const float* const from = x + row * channels_ + channel;
#pragma omp simd
        for (std::size_t c = 0; c < count; ++c) {
          const float distance = from[c] - origin[c];
          sum[c] += distance;
          squares[c] += distance * distance;
        }
      }
      std::copy_n(sum, count, sums_.data() + 2 * chunk * channels_ + channel);
      std::copy_n(squares, count, sums_.data() + (2 * chunk + 1) * channels_ + channel);
    });
  });
  const auto count = static_cast<double>(rows_);
  std::vector<float> factor(channels_);
  for (std::size_t c = 0; c < channels_; ++c) {
    const double distance = total_of(sums_, rows_, channels_, 0, c) / count;
    const double square = total_of(sums_, rows_, channels_, 1, c) / count;
    const double mean = static_cast<double>(x[c]) + distance;
    // Rounding may make the difference of a constant channel negative; NaN stays NaN.
    const double variance = square < distance * distance ? 0 : square - distance * distance;
    arrays.mean[c] = static_cast<float>(mean);
    arrays.inverse_deviation[c] =
        static_cast<float>(1 / std::sqrt(variance + static_cast<double>(epsilon_)));
    factor[c] = arrays.inverse_deviation[c] * arrays.scale[c];
    // The running variance is the unbiased estimate.
    float &running_mean = arrays.running_mean[c], &running_variance = arrays.running_variance[c];
    running_mean +=
        static_cast<float>(arrays.momentum * (mean - static_cast<double>(running_mean)));
    running_variance += static_cast<float>(
        arrays.momentum * (variance * count / (count - 1) - static_cast<double>(running_variance)));
  }
  const Normalise normalise{x,
                            static_cast<const float*>(arrays.addend),
                            static_cast<float*>(arrays.output),
                            arrays.has_relu,
                            arrays.mean,
                            factor.data(),
                            arrays.shift};
  for_each_chunk(rows_, [&](std::size_t, std::size_t first, std::size_t last) {
    normalise(first, last, channels_);
  });
}

void ChannelsLastNorm::forward_inference(const BatchNormInference& arrays) {
  std::vector<float> factor(channels_);
  for (std::size_t c = 0; c < channels_; ++c)
    factor[c] = arrays.scale[c] / std::sqrt(arrays.variance[c] + epsilon_);
  const Normalise normalise{static_cast<const float*>(arrays.input),
                            static_cast<const float*>(arrays.addend),
                            static_cast<float*>(arrays.output),
                            arrays.has_relu,
                            arrays.mean,
                            factor.data(),
                            arrays.shift};
  for_each_chunk(rows_, [&](std::size_t, std::size_t first, std::size_t last) {
    normalise(first, last, channels_);
  });
}

// With the gradient g by the normalised values and the inverse deviation i: the gradient by the
// scale is sum(g (x - mean)) i, that by the shift is sum(g), and dx = scale i (g - mean(g) - (x -
// mean) i^2 mean(g (x - mean))).
void ChannelsLastNorm::backward(const BatchNormBackward& arrays) {
  const auto* const x = static_cast<const float*>(arrays.input);
  const auto* const dy = static_cast<const float*>(arrays.output_gradient);
  const auto* const y = static_cast<const float*>(arrays.output);
  auto* const dx = static_cast<float*>(arrays.input_gradient);
  auto* const by_addend = static_cast<float*>(arrays.addend_gradient);
  const auto sum_chunk = [&]<bool kHasRelu>(std::bool_constant<kHasRelu>, std::size_t chunk,
                                            std::size_t first, std::size_t last) {
    for_each_strip(channels_, [&](std::size_t channel, auto count) {
      float mean[kStrip], sum[kStrip] = {}, products[kStrip] = {};
      for (std::size_t c = 0; c < count; ++c) mean[c] = arrays.mean[channel + c];
      for (std::size_t row = first; row < last; ++row) {
        const std::size_t at = row * channels_ + channel;
#pragma omp simd
        for (std::size_t c = 0; c < count; ++c) {
          const float gradient = gradient_at<kHasRelu>(dy, y, at + c);
          sum[c] += gradient;
          products[c] += gradient * (x[at + c] - mean[c]);
        }
      }
      std::copy_n(sum, count, sums_.data() + 2 * chunk * channels_ + channel);
      std::copy_n(products, count, sums_.data() + (2 * chunk + 1) * channels_ + channel);
    });
  };
  const auto with_relu = [&](const auto& function, auto... arguments) {
    y != nullptr ? function(std::true_type{}, arguments...)
                 : function(std::false_type{}, arguments...);
  };
  for_each_chunk(rows_, [&](std::size_t chunk, std::size_t first, std::size_t last) {
    with_relu(sum_chunk, chunk, first, last);
  });
  const auto count = static_cast<double>(rows_);
  std::vector<float> factor(channels_), mean_gradient(channels_), slope(channels_);
  for (std::size_t c = 0; c < channels_; ++c) {
    const double sum = total_of(sums_, rows_, channels_, 0, c);
    const double product = total_of(sums_, rows_, channels_, 1, c);
    const auto inverse = static_cast<double>(arrays.inverse_deviation[c]);
    arrays.scale_gradient[c] = static_cast<float>(product * inverse);
    arrays.shift_gradient[c] = static_cast<float>(sum);
    factor[c] = arrays.inverse_deviation[c] * arrays.scale[c];
    mean_gradient[c] = static_cast<float>(sum / count);
    slope[c] = static_cast<float>(product * inverse * inverse / count);
  }
  const auto write_chunk = [&]<bool kHasRelu>(std::bool_constant<kHasRelu>, std::size_t first,
                                              std::size_t last) {
    for_each_strip(channels_, [&](std::size_t channel, auto width) {
      for (std::size_t row = first; row < last; ++row) {
        const std::size_t at = row * channels_ + channel;
#pragma omp simd
        for (std::size_t c = 0; c < width; ++c) {
          const float gradient = gradient_at<kHasRelu>(dy, y, at + c);
          if (by_addend != nullptr) by_addend[at + c] = gradient;
          dx[at + c] =
              factor[channel + c] * (gradient - mean_gradient[channel + c] -
                                     (x[at + c] - arrays.mean[channel + c]) * slope[channel + c]);
        }
      }
    });
  };
  for_each_chunk(rows_, [&](std::size_t, std::size_t first, std::size_t last) {
    with_relu(write_chunk, first, last);
  });
}

}  // namespace horo::ops::cpu

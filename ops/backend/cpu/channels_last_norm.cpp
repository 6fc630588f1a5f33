#include "ops/backend/cpu/channels_last_norm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/backend/cpu/vector_clones.h"

namespace horo::ops::cpu {
namespace {

constexpr std::size_t kChunk = 256;  // rows
constexpr std::size_t kStrip = 16;   // channels whose values stay in registers

/// A range of the rows of images, which have `channels` values each.
struct Rows {
  std::size_t first, last, channels;
};

/// Runs a pass over rows: calls pass.strip(first channel, count) for strips of channels. `count` is
/// a constant except in the last strip, so that the compiler unrolls the loops over a strip. The
/// strip() of every pass must be inlined.
template <typename Pass>
HORO_VECTOR_CLONES void run(const Pass& pass, std::size_t channels) {
  std::size_t first = 0;
  for (; first + kStrip <= channels; first += kStrip)
    pass.strip(first, std::integral_constant<std::size_t, kStrip>{});
  if (first < channels) pass.strip(first, channels - first);
}

std::size_t count_chunks(std::size_t rows) { return (rows + kChunk - 1) / kChunk; }

/// Runs pass_of(chunk, rows) for every chunk of `rows` rows, with several threads.
template <typename PassOf>
void run_chunks(std::size_t rows, std::size_t channels, const PassOf& pass_of) {
#pragma omp parallel for schedule(static)
  for (std::size_t chunk = 0; chunk < count_chunks(rows); ++chunk)
    run(pass_of(chunk, Rows{chunk * kChunk, std::min(rows, (chunk + 1) * kChunk), channels}),
        channels);
}

/// Calls use(constant) with the bool as a compile-time constant.
template <typename Use>
void with_constant(bool value, const Use& use) {
  value ? use(std::true_type{}) : use(std::false_type{});
}

/// The total of one of the two sums of a channel.
double total_of(const std::vector<float>& sums, std::size_t rows, std::size_t channels,
                std::size_t which, std::size_t channel) {
  double total = 0;
  for (std::size_t chunk = 0; chunk < count_chunks(rows); ++chunk)
    total += static_cast<double>(sums[(2 * chunk + which) * channels + channel]);
  return total;
}

/// Sums the distances from the first row of all, and their squares, into `sums` [2][channels].
struct SumDistances {
  const float* x;
  float* sums;
  Rows rows;

  template <typename Count>
  [[gnu::always_inline]] void strip(std::size_t channel, Count count) const {
    float origin[kStrip], sum[kStrip] = {}, squares[kStrip] = {};
    for (std::size_t c = 0; c < count; ++c) origin[c] = x[channel + c];
    for (std::size_t row = rows.first; row < rows.last; ++row) {
      const float* const from = x + row * rows.channels + channel;
#pragma omp simd
      for (std::size_t c = 0; c < count; ++c) {
        const float distance = from[c] - origin[c];
        sum[c] += distance;
        squares[c] += distance * distance;
      }
    }
    for (std::size_t c = 0; c < count; ++c) {
      sums[channel + c] = sum[c];
      sums[rows.channels + channel + c] = squares[c];
    }
  }
};

struct NormaliseArrays {
  const float* x;
  const float* addend;  // null: none
  float* y;
  const float* mean;
  const float* factor;
  const float* shift;
};

/// y = (x - mean) * factor + shift, plus an addend, through a ReLU.
template <bool kHasAddend, bool kHasRelu>
struct Normalise {
  NormaliseArrays arrays;
  Rows rows;

  template <typename Count>
  [[gnu::always_inline]] void strip(std::size_t channel, Count count) const {
    // Not a structured binding: Clang before 16 does not accept one inside a simd loop.
    const float *const x = arrays.x, *const addend = arrays.addend, *const mean = arrays.mean,
                       *const factor = arrays.factor, *const shift = arrays.shift;
    float* const y = arrays.y;
    for (std::size_t row = rows.first; row < rows.last; ++row) {
      const std::size_t at = row * rows.channels + channel;
#pragma omp simd
      for (std::size_t c = 0; c < count; ++c) {
        float value = (x[at + c] - mean[channel + c]) * factor[channel + c] + shift[channel + c];
        if constexpr (kHasAddend) value += addend[at + c];
        if constexpr (kHasRelu) value = value <= 0.0f ? 0.0f : value;  // NaN stays NaN
        y[at + c] = value;
      }
    }
  }
};

void normalise(const NormaliseArrays& arrays, bool has_relu, std::size_t rows,
               std::size_t channels) {
  with_constant(arrays.addend != nullptr, [&](auto adds) {
    with_constant(has_relu, [&](auto rectifies) {
      run_chunks(rows, channels, [&](std::size_t, const Rows& chunk) {
        return Normalise<adds(), rectifies()>{arrays, chunk};
      });
    });
  });
}

/// The gradient by the normalised values: 0 where a ReLU has set the output to zero. `y` is null
/// without a ReLU.
template <bool kHasRelu>
[[gnu::always_inline]] inline float gradient_at(const float* dy, const float* y, std::size_t at) {
  if constexpr (kHasRelu) return y[at] <= 0.0f ? 0.0f : dy[at];
  return dy[at];
}

/// Sums the gradients g by the normalised values, and g (x - mean), into `sums` [2][channels].
template <bool kHasRelu>
struct SumGradients {
  const float* x;
  const float* dy;
  const float* y;
  const float* means;
  float* sums;
  Rows rows;

  template <typename Count>
  [[gnu::always_inline]] void strip(std::size_t channel, Count count) const {
    float mean[kStrip], sum[kStrip] = {}, products[kStrip] = {};
    for (std::size_t c = 0; c < count; ++c) mean[c] = means[channel + c];
    for (std::size_t row = rows.first; row < rows.last; ++row) {
      const std::size_t at = row * rows.channels + channel;
#pragma omp simd
      for (std::size_t c = 0; c < count; ++c) {
        const float gradient = gradient_at<kHasRelu>(dy, y, at + c);
        sum[c] += gradient;
        products[c] += gradient * (x[at + c] - mean[c]);
      }
    }
    for (std::size_t c = 0; c < count; ++c) {
      sums[channel + c] = sum[c];
      sums[rows.channels + channel + c] = products[c];
    }
  }
};

struct GradientArrays {
  const float* x;
  const float* dy;
  const float* y;
  float* dx;
  float* by_addend;  // null: none
  const float* mean;
  const float* factor;
  const float* mean_gradient;
  const float* slope;
};

/// dx = factor (g - mean(g) - (x - mean) slope); the gradient by an addend is g.
template <bool kHasAddend, bool kHasRelu>
struct WriteGradients {
  GradientArrays arrays;
  Rows rows;

  template <typename Count>
  [[gnu::always_inline]] void strip(std::size_t channel, Count count) const {
    const float *const x = arrays.x, *const dy = arrays.dy, *const y = arrays.y,
                       *const mean = arrays.mean, *const factor = arrays.factor,
                       *const mean_gradient = arrays.mean_gradient, *const slope = arrays.slope;
    float *const dx = arrays.dx, *const by_addend = arrays.by_addend;
    for (std::size_t row = rows.first; row < rows.last; ++row) {
      const std::size_t at = row * rows.channels + channel;
#pragma omp simd
      for (std::size_t c = 0; c < count; ++c) {
        const float gradient = gradient_at<kHasRelu>(dy, y, at + c);
        if constexpr (kHasAddend) by_addend[at + c] = gradient;
        dx[at + c] = factor[channel + c] * (gradient - mean_gradient[channel + c] -
                                            (x[at + c] - mean[channel + c]) * slope[channel + c]);
      }
    }
  }
};

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
  run_chunks(rows_, channels_, [&](std::size_t chunk, const Rows& rows) {
    return SumDistances{x, sums_.data() + 2 * chunk * channels_, rows};
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
  normalise({x, static_cast<const float*>(arrays.addend), static_cast<float*>(arrays.output),
             arrays.mean, factor.data(), arrays.shift},
            arrays.has_relu, rows_, channels_);
}

void ChannelsLastNorm::forward_inference(const BatchNormInference& arrays) {
  std::vector<float> factor(channels_);
  for (std::size_t c = 0; c < channels_; ++c)
    factor[c] = arrays.scale[c] / std::sqrt(arrays.variance[c] + epsilon_);
  normalise({static_cast<const float*>(arrays.input), static_cast<const float*>(arrays.addend),
             static_cast<float*>(arrays.output), arrays.mean, factor.data(), arrays.shift},
            arrays.has_relu, rows_, channels_);
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
  with_constant(y != nullptr, [&](auto rectifies) {
    run_chunks(rows_, channels_, [&](std::size_t chunk, const Rows& rows) {
      return SumGradients<rectifies()>{
          x, dy, y, arrays.mean, sums_.data() + 2 * chunk * channels_, rows};
    });
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
  const GradientArrays all{
      x, dy, y, dx, by_addend, arrays.mean, factor.data(), mean_gradient.data(), slope.data()};
  with_constant(by_addend != nullptr, [&](auto adds) {
    with_constant(y != nullptr, [&](auto rectifies) {
      run_chunks(rows_, channels_, [&](std::size_t, const Rows& rows) {
        return WriteGradients<adds(), rectifies()>{all, rows};
      });
    });
  });
}

}  // namespace horo::ops::cpu

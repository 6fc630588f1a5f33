#include <cmath>

#include "horo/device/launch.h"
#include "ops/backend/device/norm/batch_sums.h"

namespace horo::ops::device_kernels {
namespace {

constexpr unsigned kSumThreads = 128;

/// Calls `compute`, which has the number of `channels`, for each of them.
template <typename Compute>
struct ForEachChannel {
  Compute compute;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t channel = place.block * std::size_t{place.threads} + place.thread;
    if (channel < compute.channels) compute(channel);
  }
};

template <typename Compute>
void run(device::Stream* stream, const Compute& compute) {
  const auto blocks = static_cast<unsigned>((compute.channels + kSumThreads - 1) / kSumThreads);
  const device::Grid grid{blocks, kSumThreads};
  if (stream == nullptr)
    device::run_on_host(grid, ForEachChannel<Compute>{compute}, device::NoTable{});
  else
    device::launch(*stream, grid, ForEachChannel<Compute>{compute});
}

struct MomentsToSums {
  std::size_t channels;
  double* sums;
  ChannelMoments moments;
  double count, epsilon;

  HORO_KERNEL void operator()(std::size_t c) const {
    const auto mean = static_cast<double>(moments.mean[c]);
    const auto inverse = static_cast<double>(moments.inverse_deviation[c]);
    const double variance = 1 / (inverse * inverse) - epsilon;
    sums[c] = count * mean;
    sums[channels + c] = count * (variance + mean * mean);
    if (c == 0) sums[2 * channels] = count;
  }
};

struct SumsToMoments {
  std::size_t channels;
  const double* sums;
  ChannelMoments moments;
  float* variance;
  float* running_mean;
  float* running_variance;
  double momentum, epsilon;

  HORO_KERNEL void operator()(std::size_t c) const {
    const double count = sums[2 * channels];
    const double mean = sums[c] / count;
    const double difference = sums[channels + c] / count - mean * mean;
    const double biased = difference < 0 ? 0 : difference;  // by rounding; NaN stays NaN
    moments.mean[c] = static_cast<float>(mean);
    moments.inverse_deviation[c] = static_cast<float>(1 / std::sqrt(biased + epsilon));
    variance[c] = static_cast<float>(biased);
    move_towards(running_mean[c], mean);
    move_towards(running_variance[c], biased * count / (count - 1));
  }
  HORO_KERNEL void move_towards(float& value, double target) const {
    value += static_cast<float>(momentum * (target - static_cast<double>(value)));
  }
};

struct GradientCorrection {
  std::size_t channels;
  float* factor;
  float* offset;
  const float* own_scale;
  const float* own_shift;
  const double* totals;
  const double* total_count;
  const float* scale;
  const float* inverse_deviation;
  double count;

  HORO_KERNEL void operator()(std::size_t c) const {
    const double slope = static_cast<double>(scale[c]) * static_cast<double>(inverse_deviation[c]);
    const double by_scale = static_cast<double>(own_scale[c]) / count - totals[c] / *total_count;
    const double by_shift =
        static_cast<double>(own_shift[c]) / count - totals[channels + c] / *total_count;
    factor[c] = static_cast<float>(slope * by_scale);
    offset[c] = static_cast<float>(slope * by_shift);
  }
};

struct JoinAsDouble {
  std::size_t channels;
  double* to;
  const float* first;
  const float* second;

  HORO_KERNEL void operator()(std::size_t c) const {
    to[c] = static_cast<double>(first[c]);
    to[channels + c] = static_cast<double>(second[c]);
  }
};

}  // namespace

void moments_to_sums(device::Stream* stream, double* sums, const ChannelMoments& moments,
                     std::size_t channels, std::size_t count, float epsilon) {
  run(stream, MomentsToSums{channels, sums, moments, static_cast<double>(count),
                            static_cast<double>(epsilon)});
}

void sums_to_moments(device::Stream* stream, const double* sums, const ChannelMoments& moments,
                     float* variance, float* running_mean, float* running_variance,
                     std::size_t channels, float momentum, float epsilon) {
  run(stream, SumsToMoments{channels, sums, moments, variance, running_mean, running_variance,
                            static_cast<double>(momentum), static_cast<double>(epsilon)});
}

void gradient_correction(device::Stream* stream, float* factor, float* offset,
                         const float* own_scale, const float* own_shift, const double* totals,
                         const double* total_count, const float* scale,
                         const float* inverse_deviation, std::size_t channels, std::size_t count) {
  run(stream,
      GradientCorrection{channels, factor, offset, own_scale, own_shift, totals, total_count, scale,
                         inverse_deviation, static_cast<double>(count)});
}

void join_as_double(device::Stream* stream, double* to, const float* first, const float* second,
                    std::size_t channels) {
  run(stream, JoinAsDouble{channels, to, first, second});
}

}  // namespace horo::ops::device_kernels

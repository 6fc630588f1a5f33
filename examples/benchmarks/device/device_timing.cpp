#include "examples/benchmarks/device/device_timing.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace horo::bench {
namespace {

constexpr int kTimingWarmUps = 5;
constexpr int kCallsPerSample = 64;
constexpr double kSampleUs = 1000;
constexpr std::size_t kMostRunsPerSample = 200;  // a stream takes about a thousand launches

using Clock = std::chrono::steady_clock;

double device_us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

}  // namespace

// A sample is the time of many runs in a row, divided by their number. The launch overhead of the
// host is hidden if the device is the bottleneck.
Stats device_time(device::Stream& stream, const Repeats& repeats,
                  const std::function<void(std::size_t)>& run) {
  std::size_t next = 0;
  const auto row_us = [&](std::size_t runs) {
    const auto begin = Clock::now();
    for (std::size_t k = 0; k < runs; ++k) run(next++);
    stream.synchronize();
    return device_us_since(begin) / static_cast<double>(runs);
  };
  double once = 0;
  for (int k = 0; k < kTimingWarmUps; ++k) once = row_us(1);
  const auto enough = std::clamp(static_cast<std::size_t>(kSampleUs / std::max(once, 1.0)) + 1,
                                 std::size_t{1}, kMostRunsPerSample);
  const std::size_t runs = repeats.runs > 0 ? repeats.runs : enough;
  std::vector<double> samples;
  for (int k = 0; k < repeats.samples; ++k) samples.push_back(row_us(runs));
  return stats_of(samples);
}

Stats host_time(device::Stream& stream, const Repeats& repeats, const std::function<void()>& call) {
  std::vector<double> samples;
  for (int k = 0; k < kTimingWarmUps + repeats.samples; ++k) {
    const auto begin = Clock::now();
    for (int c = 0; c < kCallsPerSample; ++c) call();
    if (k >= kTimingWarmUps) samples.push_back(device_us_since(begin) / kCallsPerSample);
    stream.synchronize();
  }
  return stats_of(samples);
}

}  // namespace horo::bench

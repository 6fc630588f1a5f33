#pragma once

#include <cstddef>
#include <functional>

#include "examples/benchmarks/bench_timing.h"
#include "horo/device/device.h"

namespace horo::bench {

/// Number of measurements, after five that are not counted.
struct Repeats {
  int samples = 21;
  /// Runs per sample; 0: as many as take a millisecond. All ranks must use the same number.
  std::size_t runs = 0;
};

/// The time of run(i) on the device in microseconds. A sample is a series of runs of at least about
/// a millisecond: the time from the first submission until `stream` completes the last run, divided
/// by their number. i increases, so that runs can alternate between buffers.
Stats device_time(device::Stream& stream, const Repeats& repeats,
                  const std::function<void(std::size_t i)>& run);

/// The host time of a call in microseconds. The device is synchronised between samples of 64 calls.
Stats host_time(device::Stream& stream, const Repeats& repeats, const std::function<void()>& call);

}  // namespace horo::bench

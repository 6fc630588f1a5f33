#pragma once

#include <cstddef>
#include <functional>

#include "examples/benchmarks/bench_timing.h"
#include "horo/base/device/device.h"

namespace horo::bench {

/// How often everything is measured, after five times that are not counted.
struct Repeats {
  int samples = 21;
  /// In each sample; 0: as many as take a millisecond. Several ranks take the same number.
  std::size_t runs = 0;
};

/// The time of run(i), in microseconds, as the device does one after the other: a sample is a row
/// of them that takes about a millisecond or more, from when the first is given to when `stream`
/// has passed the last, divided by their number. i counts up, so that runs can take turns with
/// buffers.
Stats device_time(device::Stream& stream, const Repeats& repeats,
                  const std::function<void(std::size_t i)>& run);

/// What a call costs the thread that makes it, in microseconds. Between samples of 64 calls the
/// device is waited for.
Stats host_time(device::Stream& stream, const Repeats& repeats, const std::function<void()>& call);

}  // namespace horo::bench

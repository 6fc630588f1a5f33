#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/benchmarks/device/device_timing.h"
#include "horo/base/data_type.h"
#include "horo/base/device/device.h"

namespace horo::bench {

/// What the parts of device_bench share. Each prints its rows and returns them.
struct DeviceBench {
  device::Device& device;
  device::Stream& stream;
  Repeats repeats;
  std::size_t divide;    ///< tensors and copies have this part of their elements
  double copy_gbps = 0;  ///< measure_copy()'s, read and written
};

/// A copy within the device of 1 GiB: what everything else is held against.
nlohmann::json measure_copy(DeviceBench& bench);
/// Packing and unpacking the gradients of `model` (gradient_set()), as `wire` and scaled.
nlohmann::json measure_moves(const DeviceBench& bench, const std::string& model, DataType wire);
/// 512 tensors of 12 KB into a buffer: one launch beside a copy for each.
nlohmann::json measure_small_tensors(const DeviceBench& bench);
/// A step of AdamW on GPT-2's values, in float32.
nlohmann::json measure_adamw(const DeviceBench& bench);
/// One tensor of each size through the chunk pipeline of a job of one rank, from the record of its
/// readiness to when its end is seen.
nlohmann::json measure_latency(const DeviceBench& bench);
/// The gradients of ResNet-50 through that pipeline, from one exchange to the next, and what giving
/// one to the device costs the host.
nlohmann::json measure_exchange(const DeviceBench& bench);
/// What the calls cost the thread that makes them.
nlohmann::json measure_host_times(const DeviceBench& bench);

}  // namespace horo::bench

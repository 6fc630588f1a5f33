#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/benchmarks/device/device_timing.h"
#include "horo/base/data_type.h"
#include "horo/device/device.h"

namespace horo::bench {

/// The state that the parts of device_bench share. Each part prints its rows and returns them.
struct DeviceBench {
  device::Device& device;
  device::Stream& stream;
  Repeats repeats;
  std::size_t divide;    ///< sizes of tensors and copies are divided by this
  double copy_gbps = 0;  ///< of measure_copy(), read and written
};

/// A copy of 1 GiB within the device, the reference for all other rows.
nlohmann::json measure_copy(DeviceBench& bench);
/// Packing and unpacking the gradients of `model` (gradient_set()), converted to `wire` and scaled.
nlohmann::json measure_moves(const DeviceBench& bench, const std::string& model, DataType wire);
/// 512 tensors of 12 KB into a buffer: one launch, compared with one copy per tensor.
nlohmann::json measure_small_tensors(const DeviceBench& bench);
/// A step of AdamW on GPT-2's values, in float32.
nlohmann::json measure_adamw(const DeviceBench& bench);
/// The latency of one tensor through the chunk pipeline of a job of one rank: from its ready event
/// until the host sees its completion.
nlohmann::json measure_latency(const DeviceBench& bench);
/// The time per exchange of the gradients of ResNet-50 through that pipeline, and the host time to
/// submit one.
nlohmann::json measure_exchange(const DeviceBench& bench);
/// The host time of each call.
nlohmann::json measure_host_times(const DeviceBench& bench);

/// An allreduce over `ranks` devices of this process, whole and in chunks: with a nonblocking
/// communicator, in which NCCL starts a thread per call, with registered memory, with a blocking
/// communicator, and with fewer blocks of threads. On the stand-in (not `is_gpu`) only the first.
nlohmann::json measure_connections(const Repeats& repeats, std::size_t divide, int ranks,
                                   bool is_gpu);

/// GB/s of `bytes` in `us` microseconds.
double gbps(std::size_t bytes, double us);

/// Prints `what` with its time, without a newline.
void print_time(const std::string& what, const Stats& us);

/// Prints and returns a row for an operation that reads and writes `bytes` in total, compared with
/// measure_copy().
nlohmann::json bandwidth_row(const DeviceBench& bench, const std::string& what, std::size_t bytes,
                             const Stats& us);

}  // namespace horo::bench

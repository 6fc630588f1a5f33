#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/device/device_bench.h"

namespace horo::bench {

/// GB/s of `bytes` in `us` microseconds.
double gbps(std::size_t bytes, double us);

/// Prints "what" with its time, without the end of the line.
void print_time(const std::string& what, const Stats& us);

/// A row of what reads and writes `bytes` in all, beside the memory's own copy; prints it.
nlohmann::json bandwidth_row(const DeviceBench& bench, const std::string& what, std::size_t bytes,
                             const Stats& us);

}  // namespace horo::bench

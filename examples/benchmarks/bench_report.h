#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/memory_copy.h"
#include "horo/context.h"

namespace horo::bench {

/// {"min": ..., "median": ..., "max": ...}
nlohmann::json to_json(const Stats& stats);
/// What every report begins with: ranks, nodes, the MPI library, the CPU, and the memory's limits.
nlohmann::json report_header(const Context& ctx, const MemoryLimits& limits);
/// One line: which regime the cores were in.
std::string describe(const MemoryLimits& limits);
/// Writes `report` to `path`; throws horo::Error that names the path if it cannot.
void write_json(const nlohmann::json& report, const std::string& path);

}  // namespace horo::bench

#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/memory_copy.h"
#include "horo/context.h"

namespace horo::bench {

/// {"min": ..., "median": ..., "max": ...}
nlohmann::json to_json(const Stats& stats);
/// The first entries of every report: ranks, nodes, MPI library, CPU and memory bandwidth.
nlohmann::json report_header(const Context& ctx, const MemoryLimits& limits);
/// One line with the bandwidths and whether the cores share a cache.
std::string describe(const MemoryLimits& limits);
/// Writes `report` to `path`. Throws horo::Error with the path on failure.
void write_json(const nlohmann::json& report, const std::string& path);

/// The help text of a benchmark before its options.
struct BenchmarkHelp {
  std::string name;
  std::string purpose;    ///< a sentence
  int ranks = 2;          ///< of the example
  std::string arguments;  ///< of the example
};

/// The main() of a benchmark: reads the command line into the targets of `options`, then calls
/// `check`, which throws for values that do not fit together, and `run`. Adds -h and --help.
/// Returns the exit code: 2 for a mistake on the command line, 1 for a failure; both with one line
/// on stderr.
int benchmark_main(int argc, char** argv, const BenchmarkHelp& help,
                   boost::program_options::options_description options,
                   const std::function<void()>& check, const std::function<void()>& run);

/// Largest value of --rounds and --samples.
inline constexpr std::int64_t kMostRounds = 1'000'000;

/// The sizes of float32 buffers in the value of --sizes, such as "4,1024". Throws InvalidArgument
/// for anything but multiples of 4 bytes up to 1 TiB.
std::vector<std::size_t> parse_sizes(const std::string& text);

/// Calls horo::init(). Throws InvalidArgument if mpirun did not start the program, since a
/// comparison needs MPI.
Context init_beside_mpi();

}  // namespace horo::bench

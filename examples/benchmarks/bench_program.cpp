#include "examples/benchmarks/bench_program.h"

#include <fmt/format.h>
#include <mpi.h>

#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>

#include "examples/command_line.h"

namespace horo::bench {

namespace {

// Cores that share a cache exchange 10 GB/s or more, others about 2 GB/s.
constexpr double kSharedCacheGbps = 5;

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

nlohmann::json to_json(const Stats& stats) {
  return {{"min", stats.min}, {"median", stats.median}, {"max", stats.max}};
}

nlohmann::json report_header(const Context& ctx, const MemoryLimits& limits) {
  return {{"ranks", ctx.size()},
          {"nodes", ctx.node_count()},
          {"mpi", mpi_library()},
          {"cpu", cpu_name()},
          {"memcpy_gbps", limits.memcpy_gbps},
          {"streaming_copy_gbps", limits.streaming_copy_gbps},
          {"core_to_core_gbps", limits.core_to_core_gbps}};
}

std::string describe(const MemoryLimits& limits) {
  return fmt::format(
      "memory bandwidth per rank, all ranks at once: memcpy {:.1f} GB/s, streaming copy {:.1f} "
      "GB/s, "
      "core to core {:.1f} GB/s ({})",
      limits.memcpy_gbps, limits.streaming_copy_gbps, limits.core_to_core_gbps,
      limits.core_to_core_gbps > kSharedCacheGbps ? "the cores share a cache"
                                                  : "the cores do not share a cache");
}

void write_json(const nlohmann::json& report, const std::string& path) {
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write the report to '{}'", path));
}

namespace po = boost::program_options;

// Exit codes: 0 for success, 2 for a wrong command line, 1 for a failure of the measurement.
int benchmark_main(int argc, char** argv, const BenchmarkHelp& help,
                   po::options_description options, const std::function<void()>& check,
                   const std::function<void()>& run) {
  int exit_code = 2;
  try {
    if (!examples::parse_command_line(argc, argv, options)) {
      std::cout << help.purpose << "\n\n  "
                << examples::launch_line(argv[0], help.ranks, help.arguments) << "\n\n"
                << options;
      return 0;
    }
    check();
    exit_code = 1;
    run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << help.name << ": " << error.what() << "\n";
    return exit_code;
  }
}

std::vector<std::size_t> parse_sizes(const std::string& text) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  std::vector<std::size_t> sizes;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    std::size_t bytes = 0;
    const char* end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, bytes);
    HORO_CHECK(parsed.ec == std::errc() && parsed.ptr == end && bytes > 0 && bytes <= kMost &&
                   bytes % 4 == 0,
               fmt::format("--sizes {}: '{}' is not a multiple of 4 bytes from 4 to {}", text, word,
                           kMost));
    sizes.push_back(bytes);
  }
  return sizes;
}

// A job of one rank does not start MPI by itself, but the benchmarks call MPI directly.
Context init_beside_mpi() {
  Context ctx = init();
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  HORO_CHECK(is_initialized, "this benchmark compares with MPI: start it with hororun or mpirun");
  return ctx;
}

}  // namespace horo::bench

#include "examples/benchmarks/bench_report.h"

#include <fmt/format.h>
#include <mpi.h>

#include <fstream>

namespace horo::bench {
namespace {

// Cores with a cache in common pass 10 GB/s and more, others about 2.
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
      "memory, all ranks at once, per rank: memcpy {:.1f} GB/s, streaming copy {:.1f} GB/s, from "
      "core to core "
      "{:.1f} GB/s ({})",
      limits.memcpy_gbps, limits.streaming_copy_gbps, limits.core_to_core_gbps,
      limits.core_to_core_gbps > kSharedCacheGbps ? "the cores share a cache"
                                                  : "the cores share no cache");
}

void write_json(const nlohmann::json& report, const std::string& path) {
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write the report to '{}'", path));
}

}  // namespace horo::bench

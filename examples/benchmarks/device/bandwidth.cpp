#include "examples/benchmarks/device/bandwidth.h"

#include <fmt/core.h>

#include "examples/benchmarks/bench_report.h"

namespace horo::bench {

double gbps(std::size_t bytes, double us) { return static_cast<double>(bytes) / us / 1e3; }

void print_time(const std::string& what, const Stats& us) {
  fmt::print("{:<44} {:>10.2f} us ({:.2f} to {:.2f})", what, us.median, us.min, us.max);
}

nlohmann::json bandwidth_row(const DeviceBench& bench, const std::string& what, std::size_t bytes,
                             const Stats& us) {
  const double rate = gbps(bytes, us.median);
  print_time(what, us);
  fmt::print(" {:>8.1f} GB/s {:>6.1f} % of the copy\n", rate, 100 * rate / bench.copy_gbps);
  return {{"what", what},
          {"bytes", bytes},
          {"us", to_json(us)},
          {"gbps", rate},
          {"per_copy", rate / bench.copy_gbps}};
}

}  // namespace horo::bench

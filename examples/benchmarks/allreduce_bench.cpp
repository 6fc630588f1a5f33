// Allreduce of one float32 tensor, sum, in place, from 4 bytes to 128 MiB: horo beside
// MPI_Allreduce, measured in turn in one run.
//
// horo: a registered plan of one tensor (GradientSync::exchange), as a training step uses it.
// horo_named: Context::allreduce by name, on which the ranks agree each time.
// With --alone only the first is measured: scripts/compare_peers.py runs it beside other programs.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/bench_report.h"
#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/memory_copy.h"
#include "horo/horo.h"

namespace {
using horo::bench::Contender;
using horo::bench::Stats;

struct Options {
  std::vector<std::size_t> sizes;
  bool alone = false;
  int rounds = 11;
  std::string json;
};

std::vector<std::size_t> default_sizes(std::size_t max_bytes) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes : {4ul, 64ul, 1ul << 10, 4ul << 10, 16ul << 10, 64ul << 10, 256ul << 10,
                            1ul << 20, 4ul << 20, 16ul << 20, 64ul << 20, 128ul << 20})
    if (bytes <= max_bytes) sizes.push_back(bytes);
  return sizes;
}

// Values whose sum over the ranks is exact in float32 and differs by index.
void fill(std::vector<float>& x, int rank) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 251);
}

void check(const std::vector<float>& x, int ranks, const char* contender) {
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != factor * static_cast<float>(i % 251))
      throw horo::Error(
          fmt::format("{}: wrong result at index {} of {}: {}", contender, i, x.size(), x[i]));
}

// Prints the row of one size and returns it. The ratios are over the time of the first contender.
nlohmann::json report_size(std::size_t bytes, int iterations,
                           const std::vector<Contender>& contenders,
                           const std::vector<Stats>& stats, const horo::Context& ctx) {
  const double algbw = static_cast<double>(bytes) / stats[0].median / 1e3;
  const double busbw = algbw * 2.0 * (ctx.size() - 1) / ctx.size();
  nlohmann::json row = {{"bytes", bytes},
                        {"horo_algbw_gbps", algbw},
                        {"horo_busbw_gbps", busbw},
                        {"iterations", iterations}};
  for (std::size_t c = 0; c < contenders.size(); ++c)
    row[contenders[c].name + "_us"] = horo::bench::to_json(stats[c]);
  std::string line =
      fmt::format("{:>10} {:>11.2f} {:>9.2f} {:>9.2f}", bytes, stats[0].median, algbw, busbw);
  if (contenders.size() == 3) {
    const double ratio = stats[1].median / stats[0].median;
    row["ratio"] = ratio;
    line += fmt::format(" {:>11.2f} {:>9.2f} {:>7.2f} {:>12.2f}", stats[1].median,
                        static_cast<double>(bytes) / stats[1].median / 1e3, ratio, stats[2].median);
  }
  if (ctx.rank() == 0) fmt::print("{}\n", line);
  return row;
}

nlohmann::json measure_size(horo::Context& ctx, std::size_t bytes, const Options& options) {
  std::vector<float> x(bytes / sizeof(float));
  const std::vector<horo::NamedTensor> tensors = {{"x", horo::TensorView(x)}};
  horo::GradientSync plan(ctx, tensors, {.op = horo::ReduceOp::kSum});
  std::vector<Contender> contenders = {
      {"horo", [&] { plan.exchange(); }},
      {"mpi",
       [&] {
         MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
       }},
      {"horo_named",
       [&] { ctx.allreduce(horo::TensorView(x), {.name = "bench", .op = horo::ReduceOp::kSum}); }}};
  if (options.alone) contenders.resize(1);
  for (const Contender& contender : contenders) {
    fill(x, ctx.rank());
    contender.run();
    check(x, ctx.size(), contender.name.c_str());
  }
  x.assign(x.size(), 0.0f);  // stays zero however often it is summed
  int iterations = 1000;
  for (const Contender& contender : contenders)
    iterations =
        std::min(iterations, horo::bench::iterations_for(contender, 20000, 1000, MPI_COMM_WORLD));
  const std::vector<Stats> stats =
      horo::bench::measure_in_turn(contenders, options.rounds, iterations, MPI_COMM_WORLD);

  return report_size(bytes, iterations, contenders, stats, ctx);
}

void run(const Options& options) {
  horo::Context ctx = horo::bench::init_beside_mpi();
  const auto limits = horo::bench::measure_memory_limits(std::size_t{64} << 20, MPI_COMM_WORLD);
  nlohmann::json report = horo::bench::report_header(ctx, limits);
  if (ctx.rank() == 0) {
    fmt::print("# {} ranks, float32 sum in place, medians of {} rounds{}\n# {}\n", ctx.size(),
               options.rounds, options.alone ? "" : ", horo and MPI in turn",
               horo::bench::describe(limits));
    fmt::print("{:>10} {:>11} {:>9} {:>9}", "bytes", "horo us", "algbw", "busbw");
    if (!options.alone)
      fmt::print(" {:>11} {:>9} {:>7} {:>12}", "MPI us", "algbw", "ratio", "by name us");
    fmt::print("\n");
  }
  report["rows"] = nlohmann::json::array();
  for (std::size_t bytes : options.sizes)
    report["rows"].push_back(measure_size(ctx, bytes, options));
  if (ctx.rank() == 0 && !options.json.empty()) horo::bench::write_json(report, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  std::size_t max_mib = 128;
  std::string sizes;
  po::options_description description("allreduce_bench: horo beside MPI_Allreduce");
  description.add_options()("alone", po::bool_switch(&options.alone), "measure horo alone")(
      "json", po::value(&options.json), "write the report to this file")(
      "rounds", po::value(&options.rounds), "measured rounds (default 11)")(
      "max-mib", po::value(&max_mib), "largest size in MiB (default 128; 0: the memory alone)")(
      "sizes", po::value(&sizes), "measure these sizes instead: bytes, separated by commas");
  return horo::bench::benchmark_main(
      argc, argv, "allreduce_bench", description,
      [&] {
        HORO_CHECK(options.rounds > 0, "--rounds must be at least 1");
        options.sizes =
            sizes.empty() ? default_sizes(max_mib << 20) : horo::bench::parse_sizes(sizes);
      },
      [&] { run(options); });
}

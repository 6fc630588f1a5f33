// Allreduce of one float32 tensor, sum, in place, from 4 bytes to 128 MiB: horo beside
// MPI_Allreduce, measured in turn in one run.
//
// horo: a registered plan of one tensor (GradientSync::exchange), as a training step uses it.
// arena: the same on memory of Context::allocate.
// copy: a streaming copy of as many bytes by every rank at once, the least an allreduce can do.
// named: Context::allreduce by name, on which the ranks agree each time.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <span>
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
  std::size_t max_bytes = std::size_t{128} << 20;
  int rounds = 11;
  std::string json;
};

// Values whose sum over the ranks is exact in float32 and differs by index.
void fill(std::span<float> x, int rank) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 251);
}

void check(std::span<const float> x, int ranks, const char* contender) {
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != factor * static_cast<float>(i % 251))
      throw horo::Error(
          fmt::format("{}: wrong result at index {} of {}: {}", contender, i, x.size(), x[i]));
}

horo::GradientSync make_plan(horo::Context& ctx, std::span<float> x) {
  const std::vector<horo::NamedTensor> tensors = {{"x", horo::TensorView(x)}};
  return horo::GradientSync(ctx, tensors, {.op = horo::ReduceOp::kSum});
}

// Contenders in the order of the report, and the memory that each works on.
enum { kHoro, kMpi, kArena, kCopy, kNamed };

nlohmann::json measure_size(horo::Context& ctx, const horo::Arena& arena, std::size_t bytes,
                            const Options& options) {
  std::vector<float> own(bytes / sizeof(float));
  std::vector<float> copied(own.size());
  const std::span<float> x(own);
  const std::span<float> shared(reinterpret_cast<float*>(arena.bytes().data()), own.size());
  horo::GradientSync plan = make_plan(ctx, x);
  horo::GradientSync shared_plan = make_plan(ctx, shared);
  const std::vector<Contender> contenders = {
      {"horo", [&] { plan.exchange(); }},
      {"mpi",
       [&] {
         MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
       }},
      {"horo_arena", [&] { shared_plan.exchange(); }},
      {"streaming_copy",
       [&] {
         horo::bench::streaming_copy(reinterpret_cast<std::byte*>(copied.data()),
                                     reinterpret_cast<const std::byte*>(x.data()), bytes);
       }},
      {"horo_named",
       [&] { ctx.allreduce(horo::TensorView(x), {.name = "bench", .op = horo::ReduceOp::kSum}); }}};
  for (const int contender : {kHoro, kMpi, kArena, kNamed}) {
    const std::span<float> memory = contender == kArena ? shared : x;
    fill(memory, ctx.rank());
    MPI_Barrier(MPI_COMM_WORLD);
    contenders[contender].run();
    check(memory, ctx.size(), contenders[contender].name.c_str());
    std::ranges::fill(memory, 0.0f);  // stays zero however often it is summed
  }
  int iterations = 1000;
  for (const Contender& contender : contenders)
    iterations =
        std::min(iterations, horo::bench::iterations_for(contender, 20000, 1000, MPI_COMM_WORLD));
  const std::vector<Stats> stats =
      horo::bench::measure_in_turn(contenders, options.rounds, iterations, MPI_COMM_WORLD);

  const double algbw = static_cast<double>(bytes) / stats[kHoro].median / 1e3;
  const double bus_factor = 2.0 * (ctx.size() - 1) / ctx.size();
  const double ratio = stats[kMpi].median / stats[kHoro].median;
  const double arena_per_copy = stats[kArena].median / stats[kCopy].median;
  if (ctx.rank() == 0)
    fmt::print(
        "{:>10} {:>10.2f} {:>7.2f} {:>7.2f} {:>10.2f} {:>7.2f} {:>6.2f} {:>10.2f} {:>6.2f} "
        "{:>10.2f}\n",
        bytes, stats[kHoro].median, algbw, algbw * bus_factor, stats[kMpi].median,
        static_cast<double>(bytes) / stats[kMpi].median / 1e3, ratio, stats[kArena].median,
        arena_per_copy, stats[kNamed].median);
  nlohmann::json row = {{"bytes", bytes},
                        {"horo_algbw_gbps", algbw},
                        {"horo_busbw_gbps", algbw * bus_factor},
                        {"ratio", ratio},
                        {"arena_ratio", stats[kMpi].median / stats[kArena].median},
                        {"arena_per_streaming_copy", arena_per_copy},
                        {"horo_per_streaming_copy", stats[kHoro].median / stats[kCopy].median},
                        {"iterations", iterations}};
  for (std::size_t c = 0; c < contenders.size(); ++c)
    row[contenders[c].name + "_us"] = horo::bench::to_json(stats[c]);
  return row;
}

void run(const Options& options) {
  horo::Context ctx = horo::bench::init_beside_mpi();
  const auto limits = horo::bench::measure_memory_limits(std::size_t{64} << 20, MPI_COMM_WORLD);
  nlohmann::json report = horo::bench::report_header(ctx, limits);
  if (ctx.rank() == 0) {
    fmt::print(
        "# {} ranks, float32 sum in place, medians of {} rounds, horo and MPI in turn\n# {}\n",
        ctx.size(), options.rounds, horo::bench::describe(limits));
    fmt::print("{:>10} {:>10} {:>7} {:>7} {:>10} {:>7} {:>6} {:>10} {:>6} {:>10}\n", "bytes",
               "horo us", "algbw", "busbw", "MPI us", "algbw", "ratio", "arena us", "/copy",
               "named us");
  }
  const horo::Arena arena = ctx.allocate(options.max_bytes);
  report["rows"] = nlohmann::json::array();
  for (std::size_t bytes : {4ul, 64ul, 1ul << 10, 4ul << 10, 16ul << 10, 64ul << 10, 256ul << 10,
                            1ul << 20, 4ul << 20, 16ul << 20, 64ul << 20, 128ul << 20})
    if (bytes <= options.max_bytes)
      report["rows"].push_back(measure_size(ctx, arena, bytes, options));
  if (ctx.rank() == 0 && !options.json.empty()) horo::bench::write_json(report, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  std::size_t max_mib = 128;
  po::options_description description("allreduce_bench: horo beside MPI_Allreduce");
  description.add_options()("json", po::value(&options.json), "write the report to this file")(
      "rounds", po::value(&options.rounds), "measured rounds (default 11)")(
      "max-mib", po::value(&max_mib), "largest size in MiB (default 128)");
  return horo::bench::benchmark_main(
      argc, argv, "allreduce_bench", description,
      [&] { HORO_CHECK(options.rounds > 0, "--rounds must be at least 1"); },
      [&] {
        options.max_bytes = max_mib << 20;
        run(options);
      });
}

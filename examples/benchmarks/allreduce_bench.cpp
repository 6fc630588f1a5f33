// Measures an in-place allreduce (sum) of one float32 tensor from 4 bytes to 128 MiB. horo and
// MPI_Allreduce take turns in one run.
//
// horo: a registered plan of one tensor (GradientSync::exchange), as in a training step.
//
// horo_arena: the same on memory of Context::allocate.
//
// horo_wire: like horo, with a wire type (--wire), which matters between nodes.
//
// streaming_copy: every rank copies the same number of bytes with stores that bypass the cache.
// This is a lower bound for an allreduce of a large buffer.
//
// horo_named: Context::allreduce by name, which the ranks negotiate in each call.
//
// --alone measures only the plans of horo, for scripts/compare_peers.py. --while-computing measures
// the background exchange instead, with and without a computation on the calling thread.
//
//   hororun -np 4 build/release/bin/allreduce_bench
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/memory_copy.h"
#include "examples/benchmarks/while_computing.h"
#include "examples/command_line.h"
#include "horo/horo.h"

namespace {
using horo::bench::Contender;
using horo::bench::Stats;
using horo::examples::count_value;
using horo::examples::counted;

struct Options {
  std::vector<std::size_t> sizes;
  bool alone = false;
  bool while_computing = false;
  std::optional<horo::DataType> wire;
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
void fill(std::span<float> x, int rank) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 251);
}

// tolerance: relative; 0 where the sum is exact.
void check(std::span<const float> x, int ranks, float tolerance, const std::string& contender) {
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float expected = factor * static_cast<float>(i % 251);
    if (!(std::abs(x[i] - expected) <= tolerance * expected))
      throw horo::Error(
          fmt::format("{}: wrong result at index {} of {}: {}", contender, i, x.size(), x[i]));
  }
}

horo::GradientSync make_plan(horo::Context& ctx, std::span<float> x,
                             std::optional<horo::DataType> wire = {}) {
  const std::vector<horo::NamedTensor> tensors = {{"x", horo::TensorView(x)}};
  return horo::GradientSync(ctx, tensors, {.op = horo::ReduceOp::kSum, .wire = wire});
}

// The measurement of one size: its memory, its plans and its contenders.
class Trial {
 public:
  Trial(horo::Context& ctx, const horo::Arena& arena, std::size_t bytes, const Options& options)
      : ctx_(ctx),
        own_(bytes / sizeof(float)),
        shared_(reinterpret_cast<float*>(arena.bytes().data()), own_.size()),
        copied_(options.alone ? 0 : own_.size()),
        plan_(make_plan(ctx, own_)),
        shared_plan_(make_plan(ctx, shared_)) {
    const auto write = [this] { std::ranges::fill(own_, 0.0f); };
    contenders_ = {{"horo", [this] { plan_.exchange(); }, write},
                   {"horo_arena", [this] { shared_plan_.exchange(); },
                    [this] { std::ranges::fill(shared_, 0.0f); }}};
    if (options.wire) {
      wire_plan_.emplace(make_plan(ctx, own_, options.wire));
      contenders_.push_back({"horo_wire", [this] { wire_plan_->exchange(); }, write});
    }
    if (options.alone) return;
    contenders_.push_back({"mpi",
                           [this] {
                             MPI_Allreduce(MPI_IN_PLACE, own_.data(), static_cast<int>(own_.size()),
                                           MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                           },
                           write});
    contenders_.push_back({"streaming_copy",
                           [this] {
                             horo::bench::streaming_copy(
                                 reinterpret_cast<std::byte*>(copied_.data()),
                                 reinterpret_cast<const std::byte*>(own_.data()),
                                 own_.size() * sizeof(float));
                           },
                           write});
    contenders_.push_back({"horo_named",
                           [this] {
                             ctx_.allreduce(horo::TensorView(own_),
                                            {.name = "bench", .op = horo::ReduceOp::kSum});
                           },
                           write});
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  const std::vector<Contender>& contenders() const { return contenders_; }

  // Runs every allreduce once and checks its result.
  void check_all() {
    for (const Contender& contender : contenders_) {
      if (contender.name == "streaming_copy") continue;
      const std::span<float> x = contender.name == "horo_arena" ? shared_ : std::span(own_);
      fill(x, ctx_.rank());
      contender.run();
      check(x, ctx_.size(), contender.name == "horo_wire" ? 0x1p-5f : 0.0f, contender.name);
      std::ranges::fill(x, 0.0f);  // stays zero however often it is summed
    }
  }

 private:
  horo::Context& ctx_;
  std::vector<float> own_;
  std::span<float> shared_;
  std::vector<float> copied_;
  horo::GradientSync plan_;
  horo::GradientSync shared_plan_;
  std::optional<horo::GradientSync> wire_plan_;
  std::vector<Contender> contenders_;
};

nlohmann::json measure_size(horo::Context& ctx, const horo::Arena& arena, std::size_t bytes,
                            const Options& options) {
  Trial trial(ctx, arena, bytes, options);
  trial.check_all();
  int iterations = 1000;
  for (const Contender& contender : trial.contenders())
    iterations =
        std::min(iterations, horo::bench::iterations_for(contender, 20000, 1000, MPI_COMM_WORLD));
  const std::vector<Stats> stats =
      horo::bench::measure_in_turn(trial.contenders(), options.rounds, iterations, MPI_COMM_WORLD);

  const double algbw = static_cast<double>(bytes) / stats[0].median / 1e3;
  const double busbw = algbw * 2.0 * (ctx.size() - 1) / ctx.size();
  nlohmann::json row = {{"bytes", bytes},
                        {"horo_algbw_gbps", algbw},
                        {"horo_busbw_gbps", busbw},
                        {"iterations", iterations}};
  std::string line = fmt::format("{:>10} {:>10.2f} {:>10.2f}", bytes, algbw, busbw);
  std::map<std::string, double> median;
  for (std::size_t c = 0; c < stats.size(); ++c) {
    const std::string& name = trial.contenders()[c].name;
    row[name + "_us"] = horo::bench::to_json(stats[c]);
    median[name] = stats[c].median;
    line += fmt::format(" {:>17.2f}", stats[c].median);
  }
  if (!options.alone) {
    row["ratio"] = median["mpi"] / median["horo"];
    row["arena_ratio"] = median["mpi"] / median["horo_arena"];
    row["horo_per_streaming_copy"] = median["horo"] / median["streaming_copy"];
    row["arena_per_streaming_copy"] = median["horo_arena"] / median["streaming_copy"];
    line += fmt::format(" {:>9.2f} {:>10.2f}", row["ratio"].get<double>(),
                        row["arena_per_streaming_copy"].get<double>());
  }
  if (ctx.rank() == 0) fmt::print("{}\n", line);
  return row;
}

void print_head(const horo::Context& ctx, const Options& options,
                const horo::bench::MemoryLimits& limits) {
  fmt::print("# {}, float32 sum in place, medians of {} in turn\n# {}\n",
             counted(ctx.size(), "rank"), counted(options.rounds, "round"),
             horo::bench::describe(limits));
  fmt::print("{:>10} {:>10} {:>10} {:>17} {:>17}", "bytes", "algbw GB/s", "busbw GB/s", "horo us",
             "arena us");
  if (options.wire) fmt::print(" {:>17}", "wire us");
  if (!options.alone)
    fmt::print(" {:>17} {:>17} {:>17} {:>9} {:>10}", "MPI us", "streaming copy us", "by name us",
               "MPI/horo", "arena/copy");
  fmt::print("\n");
}

nlohmann::json measure_overlap(horo::Context& ctx, const Options& options) {
  if (ctx.rank() == 0)
    fmt::print(
        "# lost: how much longer the exchange takes, and how much slower the computation is; core: "
        "the fraction of a core that the threads of horo use\n{:>10} {:>10} {:>18} {:>8} {:>18} "
        "{:>7}\n",
        "bytes", "alone ms", "while computing ms", "lost", "computation lost", "core");
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t bytes : options.sizes) {
    const auto result = horo::bench::measure_while_computing(ctx, bytes, options.rounds);
    nlohmann::json row = horo::bench::to_json(result);
    row["bytes"] = bytes;
    rows.push_back(row);
    if (ctx.rank() == 0)
      fmt::print("{:>10} {:>10.2f} {:>18.2f} {:>6.1f} % {:>16.1f} % {:>5.1f} %\n", bytes,
                 result.alone_us.median / 1e3, result.computing_us.median / 1e3, result.loss * 100,
                 result.computation_lost * 100, result.core_share * 100);
  }
  return rows;
}

void run(const Options& options) {
  horo::Context ctx = horo::bench::init_beside_mpi();
  const auto limits = horo::bench::measure_memory_limits(std::size_t{64} << 20, MPI_COMM_WORLD);
  nlohmann::json report = horo::bench::report_header(ctx, limits);
  report["rows"] = nlohmann::json::array();
  if (options.while_computing) {
    report["rows"] = measure_overlap(ctx, options);
  } else if (ctx.rank() == 0) {
    print_head(ctx, options, limits);
  }
  if (!options.while_computing && !options.sizes.empty()) {
    const horo::Arena arena = ctx.allocate(*std::ranges::max_element(options.sizes) + 1);
    for (std::size_t bytes : options.sizes)
      report["rows"].push_back(measure_size(ctx, arena, bytes, options));
  }
  if (ctx.rank() == 0 && !options.json.empty()) horo::bench::write_json(report, options.json);
}

std::optional<horo::DataType> parse_wire(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "float16") return horo::DataType::kFloat16;
  if (name == "bfloat16") return horo::DataType::kBFloat16;
  throw horo::InvalidArgument("--wire " + name + ": choose float16 or bfloat16");
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  std::size_t max_mib = 128;
  std::string sizes;
  std::string wire;
  po::options_description description("Options");
  auto add = description.add_options();
  add("alone", po::bool_switch(&options.alone), "measure only horo");
  add("rounds", count_value(options.rounds, "rounds", 1, horo::bench::kMostRounds),
      "measured rounds");
  add("max-mib", count_value(max_mib, "max-mib", 0, 1 << 20),
      "largest size in MiB; 0: only the memory bandwidth");
  add("sizes", po::value(&sizes)->value_name("BYTES,..."), "measure these sizes instead");
  add("wire", po::value(&wire)->value_name("TYPE"),
      "measure horo with this wire type too: float16 or bfloat16");
  add("while-computing", po::bool_switch(&options.while_computing),
      "measure how much a background exchange and a computation on the calling thread slow each "
      "other down (default size: 64 MiB)");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report to FILE");
  return horo::bench::benchmark_main(
      argc, argv,
      {.name = "allreduce_bench",
       .purpose = "Measures horo's allreduce beside MPI_Allreduce.",
       .arguments = "--max-mib 4 --rounds 5"},
      description,
      [&] {
        options.wire = parse_wire(wire);
        if (!sizes.empty())
          options.sizes = horo::bench::parse_sizes(sizes);
        else if (options.while_computing)
          options.sizes = {std::size_t{64} << 20};
        else
          options.sizes = default_sizes(max_mib << 20);
      },
      [&] { run(options); });
}

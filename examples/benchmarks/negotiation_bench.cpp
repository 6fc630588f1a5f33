// Measures the cost of negotiation: the latency of a blocking named allreduce of 8 bytes, and of a
// plain MPI_Allreduce in the same run for comparison. With --count 1,2,4 and without mpirun, it
// counts the control messages per step of many named gradients for these numbers of ranks, and
// compares them with a plan and with a formula for Horovod.
//
//   hororun -np 4 build/release/bin/negotiation_bench
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/control_traffic.h"
#include "examples/command_line.h"
#include "horo/horo.h"

namespace {
namespace bench = horo::bench;
using horo::examples::count_value;
using horo::examples::counted;
using horo::examples::number_value;

struct Options {
  int rounds = 2000;
  std::string count;
  int ranks_per_node = 8;
  std::size_t tensors = 160;
  double step_ms = 200;
  std::string json;
};

std::vector<int> parse_counts(const std::string& text) {
  std::vector<int> counts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');)
    counts.push_back(static_cast<int>(horo::examples::parse_count("count", word, 1, 4096)));
  return counts;
}

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};

Percentiles percentiles_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[samples.size() * 99 / 100]};
}

nlohmann::json to_json(const Percentiles& percentiles) {
  return {{"p50_us", percentiles.p50}, {"p99_us", percentiles.p99}};
}

void measure_latency(const Options& options) {
  horo::Context ctx = bench::init_beside_mpi();
  double mine[1] = {1};
  double theirs[1] = {1};
  const horo::TensorView tensor(mine, horo::Shape{1});
  std::vector<double> of_horo, of_mpi;
  for (int round = -100; round < options.rounds; ++round) {
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, theirs, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double middle = MPI_Wtime();
    ctx.allreduce(tensor, {.name = "metric", .op = horo::ReduceOp::kMax});
    const double end = MPI_Wtime();
    if (round < 0) continue;
    of_mpi.push_back((middle - start) * 1e6);
    of_horo.push_back((end - middle) * 1e6);
  }
  const Percentiles horo_times = percentiles_of(of_horo);
  const Percentiles mpi_times = percentiles_of(of_mpi);
  if (ctx.rank() != 0) return;
  fmt::print("blocking allreduce of 8 bytes, {} on {}\n", counted(ctx.size(), "rank"),
             counted(ctx.node_count(), "node"));
  fmt::print("{:<26} {:>9} {:>9}\n", "", "p50 us", "p99 us");
  fmt::print("{:<26} {:9.1f} {:9.1f}\n", "ctx.allreduce by name", horo_times.p50, horo_times.p99);
  fmt::print("{:<26} {:9.1f} {:9.1f}\n", "MPI_Allreduce", mpi_times.p50, mpi_times.p99);
  if (options.json.empty()) return;
  bench::write_json({{"ranks", ctx.size()},
                     {"nodes", ctx.node_count()},
                     {"horo", to_json(horo_times)},
                     {"mpi", to_json(mpi_times)}},
                    options.json);
}

nlohmann::json to_json(const bench::ControlTraffic& traffic) {
  return {{"messages_between_nodes", traffic.messages_between_nodes},
          {"bytes_between_nodes", traffic.bytes_between_nodes},
          {"most_between_nodes", traffic.most_between_nodes},
          {"messages_in_nodes", traffic.messages_in_nodes},
          {"bytes_in_nodes", traffic.bytes_in_nodes}};
}

void print_row(int ranks, const char* what, const bench::ControlTraffic& traffic) {
  fmt::print("{:>6} {:<24} {:>12.0f} {:>12.0f} {:>12.1f} {:>12.0f} {:>12.0f}\n", ranks, what,
             traffic.messages_between_nodes, traffic.bytes_between_nodes,
             traffic.most_between_nodes, traffic.messages_in_nodes, traffic.bytes_in_nodes);
}

void count_messages(const Options& options) {
  fmt::print(
      "{}, {} per node. Control messages per step between and inside nodes, sum of all ranks and "
      "most of one rank. Horovod: by formula for a step of {} ms\n",
      counted(static_cast<std::int64_t>(options.tensors), "gradient"),
      counted(options.ranks_per_node, "rank"), options.step_ms);
  fmt::print("{:>6} {:<24} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "ranks", "", "between", "bytes",
             "one rank", "inside", "bytes");
  nlohmann::json rows = nlohmann::json::array();
  for (const int ranks : parse_counts(options.count)) {
    const bench::ControlCase control{ranks, options.ranks_per_node, options.tensors};
    const bench::MeasuredTraffic measured = bench::measure_control_traffic(control);
    const std::pair<const char*, bench::ControlTraffic> all[] = {
        {"plan", measured.plan},
        {"by name, known", measured.cached},
        {"by name, first contact", measured.first_contact},
        {"Horovod, known", bench::horovod_cached(control, options.step_ms)},
        {"Horovod, first contact", bench::horovod_first_contact(control)}};
    for (const auto& [what, traffic] : all) {
      print_row(ranks, what, traffic);
      rows.push_back({{"ranks", ranks}, {"way", what}, {"traffic", to_json(traffic)}});
    }
  }
  if (!options.json.empty()) bench::write_json({{"control_traffic", rows}}, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  namespace po = boost::program_options;
  po::options_description description("Options");
  auto add = description.add_options();
  add("rounds", count_value(options.rounds, "rounds", 1, bench::kMostRounds),
      "latencies to measure");
  add("count", po::value(&options.count)->value_name("RANKS,..."),
      "count control messages for these numbers of ranks, which are threads of this process");
  add("ranks-per-node", count_value(options.ranks_per_node, "ranks-per-node", 1, 65536),
      "with --count: ranks of each simulated node");
  add("tensors", count_value(options.tensors, "tensors", 1, 1'000'000),
      "with --count: gradients per step");
  add("step-ms",
      number_value<double>(options.step_ms, "step-ms", "above 0", [](double x) { return x > 0; }),
      "with --count: duration of a step in milliseconds, for Horovod's cycles");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report to FILE");
  const bench::BenchmarkHelp help{
      .name = "negotiation_bench",
      .purpose = "Measures the latency of a named allreduce, or counts control messages.",
      .arguments = "--rounds 500"};
  const auto check = [&] { (void)parse_counts(options.count); };
  return bench::benchmark_main(argc, argv, help, description, check, [&] {
    options.count.empty() ? measure_latency(options) : count_messages(options);
  });
}

// What it costs to agree: how long a blocking allreduce of 8 bytes by name takes beside a bare
// MPI_Allreduce in the same run, and, with --count 1,2,4 (without mpirun), how many control
// messages a step of many named gradients takes for as many ranks, beside a plan and beside
// Horovod's protocol by its formula.
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/bench_report.h"
#include "examples/benchmarks/control_traffic.h"
#include "horo/horo.h"

namespace {
namespace bench = horo::bench;

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
  for (const char* at = text.data(); at < text.data() + text.size(); ++at) {
    int count = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), count);
    if (error != std::errc() || count < 1)
      throw horo::InvalidArgument(fmt::format("--count '{}': give numbers of ranks", text));
    counts.push_back(count);
    at = end;
  }
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
  fmt::print("8 bytes, blocking, {} ranks on {} nodes\n", ctx.size(), ctx.node_count());
  fmt::print("{:<26} {:>9} {:>9}\n", "microseconds", "p50", "p99");
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
      "{} gradients, {} ranks per node; all ranks together, and what the rank sends that sends "
      "most, per step; Horovod by formula, a step of {} ms\n",
      options.tensors, options.ranks_per_node, options.step_ms);
  fmt::print("{:>6} {:<24} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "ranks", "", "messages", "bytes",
             "of one rank", "in nodes", "bytes");
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
  add("rounds", po::value(&options.rounds)->default_value(options.rounds), "latencies to measure");
  add("count", po::value(&options.count),
      "count control messages for these numbers of ranks, as threads of one process");
  add("ranks-per-node", po::value(&options.ranks_per_node)->default_value(options.ranks_per_node),
      "with --count: of the pretended nodes");
  add("tensors", po::value(&options.tensors)->default_value(options.tensors),
      "with --count: gradients of a step");
  add("step-ms", po::value(&options.step_ms)->default_value(options.step_ms),
      "with --count: how long a step takes, for Horovod's cycles");
  add("json", po::value(&options.json), "write the figures to this file");
  const auto check = [&] {
    if (options.rounds < 1 || options.ranks_per_node < 1 || options.tensors < 1)
      throw horo::InvalidArgument("--rounds, --ranks-per-node and --tensors must be at least 1");
  };
  return bench::benchmark_main(argc, argv, "negotiation_bench", description, check, [&] {
    options.count.empty() ? measure_latency(options) : count_messages(options);
  });
}

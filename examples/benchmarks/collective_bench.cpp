// Measures every collective, type and algorithm of horo. Each takes turns with the matching call of
// MPI in one run: MPI_Allreduce, Reduce_scatter, Allgatherv, Bcast, Alltoallv or Barrier. Results
// are checked first.
//
// Sizes are those of the whole buffer, and bandwidths are defined as in nccl-tests, see
// bus_factor(). Each --algorithm has its own context in the same job. --compare-types measures the
// types in turn with the same number of elements and compares each with the first.
//
//   hororun -np 4 build/release/bin/collective_bench
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/collective_trial.h"
#include "examples/benchmarks/memory_copy.h"
#include "examples/command_line.h"
#include "horo/horo.h"

namespace {
using horo::bench::AlgorithmContexts;
using horo::bench::CollectiveCase;
using horo::bench::CollectiveKind;
using horo::bench::CollectiveTrial;
using horo::bench::Stats;
using horo::examples::count_value;
using horo::examples::counted;

struct Options {
  std::vector<CollectiveKind> collectives;
  std::vector<horo::DataType> types;
  horo::ReduceOp op = horo::ReduceOp::kSum;
  std::vector<std::string> algorithms;
  std::vector<std::size_t> sizes;
  bool compare_types = false;
  int rounds = 11;
  std::string json;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

// The named choices, or all of them for "all".
template <typename Choice>
std::vector<Choice> parse_choices(const std::string& option, const std::string& text,
                                  const std::vector<Choice>& all) {
  using horo::name_of;
  using horo::bench::name_of;
  if (text == "all") return all;
  std::vector<Choice> chosen;
  std::vector<std::string_view> names;
  for (Choice choice : all) names.push_back(name_of(choice));
  for (const std::string& word : words_of(text)) {
    const auto found = std::ranges::find(names, word);
    HORO_CHECK(found != names.end(), fmt::format("{} {}: '{}' is not known; choose {}", option,
                                                 text, word, fmt::join(names, ", ")));
    chosen.push_back(all[static_cast<std::size_t>(found - names.begin())]);
  }
  HORO_CHECK(!chosen.empty(), option + " names nothing");
  return chosen;
}

std::vector<horo::DataType> all_types() {
  std::vector<horo::DataType> types;
  for (int t = 0; t < horo::kDataTypeCount; ++t)
    if (const auto type = static_cast<horo::DataType>(t); type != horo::DataType::kBool)
      types.push_back(type);  // bool has no average
  return types;
}

std::vector<horo::ReduceOp> all_operations() {
  std::vector<horo::ReduceOp> operations;
  for (int o = 0; o < horo::kElementwiseOpCount; ++o)
    operations.push_back(static_cast<horo::ReduceOp>(o));
  return operations;
}

// Every fourth power of two from 4 bytes to 64 MiB, and the largest.
std::vector<std::size_t> default_sizes(std::size_t max_bytes) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 4; bytes <= max_bytes; bytes *= 16) sizes.push_back(bytes);
  if (max_bytes >= 4 && sizes.back() != max_bytes) sizes.push_back(max_bytes);
  return sizes;
}

void print_head(const AlgorithmContexts& contexts) {
  fmt::print("{:>14} {:>8} {:>10} {:>10} {:>10}", "collective", "type", "bytes", "algbw GB/s",
             "busbw GB/s");
  for (std::size_t i = 0; i < contexts.size(); ++i) fmt::print(" {:>22}", contexts.name(i) + " us");
  fmt::print(" {:>22} {:>9}\n", "mpi us", "MPI/horo");
}

nlohmann::json measure(AlgorithmContexts& contexts, const CollectiveCase& what, int rounds) {
  CollectiveTrial trial(contexts, what);
  trial.check_all();
  const std::vector<Stats> stats =
      horo::bench::measure_evenly(trial.contenders(), rounds, MPI_COMM_WORLD);
  const int ranks = contexts.context(0).size();
  const double algbw = static_cast<double>(what.bytes()) / stats[0].median / 1e3;
  const double busbw = algbw * horo::bench::bus_factor(what.kind, ranks);
  const double ratio = stats.back().median / stats[0].median;
  nlohmann::json row = {{"collective", name_of(what.kind)},
                        {"type", name_of(what.type)},
                        {"op", horo::name_of(what.op)},
                        {"bytes", what.bytes()},
                        {"count", what.count},
                        {"algbw_gbps", algbw},
                        {"busbw_gbps", busbw},
                        {"ratio", ratio}};
  std::string line = fmt::format("{:>14} {:>8} {:>10} {:>10.3f} {:>10.3f}", name_of(what.kind),
                                 name_of(what.type), what.bytes(), algbw, busbw);
  for (std::size_t c = 0; c < stats.size(); ++c) {
    row[trial.contenders()[c].name + "_us"] = horo::bench::to_json(stats[c]);
    line += fmt::format(" {:>22.2f}", stats[c].median);
  }
  if (contexts.context(0).rank() == 0) fmt::print("{} {:>9.2f}\n", line, ratio);
  return row;
}

nlohmann::json measure_all(AlgorithmContexts& contexts, const Options& options) {
  nlohmann::json rows = nlohmann::json::array();
  if (contexts.context(0).rank() == 0) print_head(contexts);
  for (CollectiveKind kind : options.collectives) {
    if (kind == CollectiveKind::kBarrier) {
      rows.push_back(measure(contexts, {.kind = kind}, options.rounds));
      continue;
    }
    for (horo::DataType type : options.types)
      for (std::size_t bytes : options.sizes)
        if (bytes >= horo::size_of(type))
          rows.push_back(measure(
              contexts,
              {.kind = kind, .type = type, .op = options.op, .count = bytes / horo::size_of(type)},
              options.rounds));
  }
  return rows;
}

// One collective with each type at the same number of elements. The ratio of a type is its time
// over that of the first type: the median of the ratios of the rounds, since both are measured one
// after the other in each round. Collective.
nlohmann::json compare(AlgorithmContexts& contexts, const Options& options, CollectiveKind kind,
                       std::size_t count) {
  std::vector<std::unique_ptr<CollectiveTrial>> trials;
  std::vector<horo::bench::Contender> contenders;
  for (horo::DataType type : options.types) {
    trials.push_back(std::make_unique<CollectiveTrial>(
        contexts, CollectiveCase{.kind = kind, .type = type, .op = options.op, .count = count}));
    trials.back()->check_all();
    contenders.push_back({std::string(name_of(type)), trials.back()->contenders()[0].run});
  }
  const auto samples = horo::bench::sample_evenly(contenders, options.rounds, MPI_COMM_WORLD);
  nlohmann::json row = {{"collective", name_of(kind)}, {"count", count}};
  std::string line = fmt::format("{:>14} {:>10}", name_of(kind), count);
  for (std::size_t t = 0; t < contenders.size(); ++t) {
    const Stats stats = horo::bench::stats_of(samples[t]);
    const double ratio = horo::bench::ratio_of(samples[t], samples[0]);
    row[contenders[t].name + "_us"] = horo::bench::to_json(stats);
    row[contenders[t].name + "_ratio"] = ratio;
    line += fmt::format(" {:>12.2f} {:>5.2f}", stats.median, ratio);
  }
  if (contexts.context(0).rank() == 0) fmt::print("{}\n", line);
  return row;
}

nlohmann::json compare_types(AlgorithmContexts& contexts, const Options& options) {
  if (contexts.context(0).rank() == 0) {
    fmt::print("{:>14} {:>10}", "collective", "elements");
    for (horo::DataType type : options.types)
      fmt::print(" {:>12} ratio", fmt::format("{} us", name_of(type)));
    fmt::print("\n");
  }
  nlohmann::json rows = nlohmann::json::array();
  const std::size_t width = horo::size_of(options.types[0]);
  for (CollectiveKind kind : options.collectives)
    for (std::size_t bytes : options.sizes)
      if (bytes >= width && kind != CollectiveKind::kBarrier)
        rows.push_back(compare(contexts, options, kind, bytes / width));
  return rows;
}

void run(const Options& options) {
  horo::Context ctx = horo::bench::init_beside_mpi();
  AlgorithmContexts contexts(ctx, options.algorithms);
  const auto limits = horo::bench::measure_memory_limits(std::size_t{16} << 20, MPI_COMM_WORLD);
  nlohmann::json report = horo::bench::report_header(ctx, limits);
  if (ctx.rank() == 0)
    fmt::print(
        "# {}, medians of {} in turn; GB/s and MPI/horo are those of the first horo column\n# {}\n",
        counted(ctx.size(), "rank"), counted(options.rounds, "round"),
        horo::bench::describe(limits));
  if (options.compare_types)
    report["comparisons"] = compare_types(contexts, options);
  else
    report["rows"] = measure_all(contexts, options);
  if (ctx.rank() == 0 && !options.json.empty()) horo::bench::write_json(report, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  std::size_t max_mib = 64;
  std::string collectives = "allreduce", types = "float32", op = "sum", algorithms, sizes;
  po::options_description description("Options; LIST: names separated by commas, or all");
  auto add = description.add_options();
  add("collective", po::value(&collectives)->value_name("LIST")->default_value(collectives),
      "allreduce, reduce_scatter, allgather, broadcast, alltoall, barrier");
  add("type", po::value(&types)->value_name("LIST")->default_value(types),
      "float32, float64, float16, bfloat16, int8, uint8, int16, uint16, int32, int64");
  add("op", po::value(&op)->value_name("NAME")->default_value(op),
      "sum, average, min, max or product");
  add("algorithm", po::value(&algorithms)->value_name("LIST"),
      "values of HORO_ALGORITHM to measure in turn; default: the one of the environment");
  add("compare-types", po::bool_switch(&options.compare_types),
      "measure the types in turn, each with the number of elements that --sizes gives for the "
      "first type");
  add("sizes", po::value(&sizes)->value_name("BYTES,..."), "measure these sizes");
  add("max-mib", count_value(max_mib, "max-mib", 0, 1 << 20),
      "largest size in MiB without --sizes");
  add("rounds", count_value(options.rounds, "rounds", 1, horo::bench::kMostRounds),
      "measured rounds");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report to FILE");
  return horo::bench::benchmark_main(
      argc, argv,
      {.name = "collective_bench",
       .purpose = "Measures every collective of horo beside the matching one of MPI.",
       .arguments = "--collective all --max-mib 1 --rounds 5"},
      description,
      [&] {
        options.collectives =
            parse_choices("--collective", collectives,
                          std::vector<CollectiveKind>(std::begin(horo::bench::kCollectiveKinds),
                                                      std::end(horo::bench::kCollectiveKinds)));
        options.types = parse_choices("--type", types, all_types());
        const auto operations = parse_choices("--op", op, all_operations());
        HORO_CHECK(operations.size() == 1, "--op takes one operation");
        options.op = operations[0];
        options.algorithms = words_of(algorithms);
        options.sizes =
            sizes.empty() ? default_sizes(max_mib << 20) : horo::bench::parse_sizes(sizes);
      },
      [&] { run(options); });
}

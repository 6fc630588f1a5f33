// Every collective, type and algorithm of horo beside the matching call of MPI, measured in turn in
// one run: MPI_Allreduce, Reduce_scatter, Allgatherv, Bcast, Alltoallv and Barrier. Results are
// checked first.
//
// Sizes are those of the whole buffer, and bandwidths are as nccl-tests defines them; see
// bus_factor(). With several --algorithm, each has a context of its own in the same job. With
// --compare-types the types take turns at the same number of elements, and each is compared with
// the first.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "examples/benchmarks/algorithm_contexts.h"
#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/bench_report.h"
#include "examples/benchmarks/collective_trial.h"
#include "examples/benchmarks/memory_copy.h"
#include "examples/benchmarks/type_comparison.h"
#include "horo/horo.h"

namespace {
using horo::bench::AlgorithmContexts;
using horo::bench::CollectiveCase;
using horo::bench::CollectiveKind;
using horo::bench::CollectiveTrial;
using horo::bench::Stats;

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

// The choices that the words name, or all for "all".
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
    HORO_CHECK(found != names.end(), fmt::format("{} {}: '{}' is none of {}", option, text, word,
                                                 fmt::join(names, ", ")));
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
  fmt::print("{:>14} {:>8} {:>10} {:>9} {:>9}", "collective", "type", "bytes", "algbw", "busbw");
  for (std::size_t i = 0; i < contexts.size(); ++i) fmt::print(" {:>22}", contexts.name(i));
  fmt::print(" {:>22} {:>9}\n", "mpi", "MPI/horo");
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
  std::string line = fmt::format("{:>14} {:>8} {:>10} {:>9.3f} {:>9.3f}", name_of(what.kind),
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

void run(const Options& options) {
  horo::Context ctx = horo::bench::init_beside_mpi();
  AlgorithmContexts contexts(ctx, options.algorithms);
  const auto limits = horo::bench::measure_memory_limits(std::size_t{16} << 20, MPI_COMM_WORLD);
  nlohmann::json report = horo::bench::report_header(ctx, limits);
  if (ctx.rank() == 0)
    fmt::print(
        "# {} ranks, medians of {} rounds in turn, microseconds; GB/s and MPI/horo are of the "
        "first of horo's columns\n# {}\n",
        ctx.size(), options.rounds, horo::bench::describe(limits));
  if (options.compare_types)
    report["comparisons"] = horo::bench::compare_types(
        contexts, {options.collectives, options.types, options.op, options.sizes}, options.rounds);
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
  po::options_description description(
      "collective_bench: every collective of horo beside MPI's (lists: words with commas, or all)");
  description.add_options()(
      "collective", po::value(&collectives),
      "list of allreduce (default), reduce_scatter, allgather, broadcast, alltoall, barrier")(
      "type", po::value(&types),
      "list of float32 (default), float64, float16, bfloat16, int8, uint8, int16, uint16, int32, "
      "int64")("op", po::value(&op), "sum (default), average, min, max or product")(
      "algorithm", po::value(&algorithms),
      "list of values of HORO_ALGORITHM, measured in turn (default: the one in force)")(
      "compare-types", po::bool_switch(&options.compare_types),
      "measure the types in turn, at the numbers of elements that --sizes gives for the first")(
      "sizes", po::value(&sizes), "bytes, separated by commas")("max-mib", po::value(&max_mib),
                                                                "largest size in MiB (default 64)")(
      "rounds", po::value(&options.rounds), "measured rounds (default 11)")(
      "json", po::value(&options.json), "write the report to this file");
  return horo::bench::benchmark_main(
      argc, argv, "collective_bench", description,
      [&] {
        HORO_CHECK(options.rounds > 0, "--rounds must be at least 1");
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

#include "examples/benchmarks/type_comparison.h"

#include <fmt/core.h>
#include <mpi.h>

#include <memory>

#include "examples/benchmarks/bench_report.h"
#include "examples/benchmarks/collective_trial.h"

namespace horo::bench {
namespace {

nlohmann::json compare(AlgorithmContexts& contexts, const TypeComparison& comparison,
                       CollectiveKind kind, std::size_t count, int rounds) {
  std::vector<std::unique_ptr<CollectiveTrial>> trials;
  std::vector<Contender> contenders;
  for (DataType type : comparison.types) {
    trials.push_back(std::make_unique<CollectiveTrial>(
        contexts, CollectiveCase{.kind = kind, .type = type, .op = comparison.op, .count = count}));
    trials.back()->check_all();
    contenders.push_back({std::string(name_of(type)), trials.back()->contenders()[0].run});
  }
  const Samples samples = sample_evenly(contenders, rounds, MPI_COMM_WORLD);
  nlohmann::json row = {{"collective", name_of(kind)}, {"count", count}};
  std::string line = fmt::format("{:>14} {:>10}", name_of(kind), count);
  for (std::size_t t = 0; t < contenders.size(); ++t) {
    const Stats stats = stats_of(samples[t]);
    const double ratio = ratio_of(samples[t], samples[0]);
    row[contenders[t].name + "_us"] = to_json(stats);
    row[contenders[t].name + "_ratio"] = ratio;
    line += fmt::format(" {:>12.2f} {:>5.2f}", stats.median, ratio);
  }
  if (contexts.context(0).rank() == 0) fmt::print("{}\n", line);
  return row;
}

}  // namespace

nlohmann::json compare_types(AlgorithmContexts& contexts, const TypeComparison& comparison,
                             int rounds) {
  if (contexts.context(0).rank() == 0) {
    fmt::print("{:>14} {:>10}", "collective", "elements");
    for (DataType type : comparison.types) fmt::print(" {:>12} ratio", name_of(type));
    fmt::print("\n");
  }
  nlohmann::json rows = nlohmann::json::array();
  for (CollectiveKind kind : comparison.collectives)
    for (std::size_t bytes : comparison.sizes)
      if (bytes >= size_of(comparison.types[0]) && kind != CollectiveKind::kBarrier)
        rows.push_back(
            compare(contexts, comparison, kind, bytes / size_of(comparison.types[0]), rounds));
  return rows;
}

}  // namespace horo::bench

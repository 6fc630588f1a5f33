// Measures the exchange of the gradients of one training step: from the first gradient, in backward
// order, until all are averaged. The contenders are GradientSync on ordinary memory and in an
// arena, one MPI_Allreduce per tensor, and one MPI_Allreduce over a flat buffer, which needs no
// packing. --alone measures only horo. --list-tensors only prints the tensors, for
// scripts/compare_peers.py.
//
//   hororun -np 4 build/release/bin/gradient_bench
#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <memory_resource>
#include <numeric>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/gradient_sets.h"
#include "examples/benchmarks/memory_copy.h"
#include "examples/command_line.h"
#include "horo/horo.h"

namespace {
using horo::bench::Contender;
using horo::bench::Stats;
using horo::examples::counted;

struct Options {
  std::string model = "resnet50";
  bool alone = false;
  bool list_tensors = false;
  int rounds = 11;
  std::string json;
};

class Gradients {
 public:
  Gradients(const std::vector<std::size_t>& counts, std::pmr::memory_resource* memory) {
    for (std::size_t count : counts) tensors_.emplace_back(count, memory);
    total_ = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  std::size_t total() const { return total_; }
  std::vector<std::pmr::vector<float>>& tensors() { return tensors_; }
  std::vector<horo::NamedTensor> named() {
    std::vector<horo::NamedTensor> result;
    for (auto& tensor : tensors_)
      result.push_back({"gradient" + std::to_string(result.size()), horo::TensorView(tensor)});
    return result;
  }
  void fill(int rank) {
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      for (std::size_t i = 0; i < tensors_[t].size(); ++i) tensors_[t][i] = value(rank, t, i);
  }
  // Whether every value is the average over the ranks, times `scale`.
  void check(int ranks, float scale, const char* contender) const {
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      for (std::size_t i = 0; i < tensors_[t].size(); ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += value(r, t, i);
        const float expected = sum * (1.0f / static_cast<float>(ranks)) * scale;
        if (tensors_[t][i] != expected)
          throw horo::Error(fmt::format("{}: tensor {} index {}: {} instead of {}", contender, t, i,
                                        tensors_[t][i], expected));
      }
  }
  void clear() {
    for (auto& tensor : tensors_) tensor.assign(tensor.size(), 0.0f);
  }

 private:
  static float value(int rank, std::size_t tensor, std::size_t i) {
    return static_cast<float>((rank + 1) * static_cast<int>(1 + (i + tensor) % 127));
  }
  std::vector<std::pmr::vector<float>> tensors_;
  std::size_t total_ = 0;
};

void mpi_sum(float* values, std::size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void print_and_write(const Options& options, nlohmann::json report,
                     const std::vector<Contender>& contenders, const std::vector<Stats>& stats) {
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    report[contenders[c].name + "_us"] = horo::bench::to_json(stats[c]);
    if (c > 0) report["ratio_" + contenders[c].name] = stats[c].median / stats[0].median;
    fmt::print("{:>16}: {:9.2f} ms (min {:.2f}, max {:.2f}){}\n", contenders[c].name,
               stats[c].median / 1e3, stats[c].min / 1e3, stats[c].max / 1e3,
               c == 0 ? std::string()
                      : fmt::format("  {:.2f}x horo's time", stats[c].median / stats[0].median));
  }
  if (!options.json.empty()) horo::bench::write_json(report, options.json);
}

void list_tensors(const std::string& model) {
  for (std::size_t count : horo::bench::gradient_set(model)) fmt::print("{}\n", count);
}

void run(const Options& options) {
  const std::vector<std::size_t> counts = horo::bench::gradient_set(options.model);
  horo::Context ctx = horo::bench::init_beside_mpi();
  const auto limits = horo::bench::measure_memory_limits(std::size_t{64} << 20, MPI_COMM_WORLD);

  Gradients gradients(counts, std::pmr::get_default_resource());
  std::vector<float> flat(options.alone ? 0 : gradients.total());
  horo::GradientSync sync(ctx, gradients.named());
  const horo::Arena arena = ctx.allocate(gradients.total() * sizeof(float) + counts.size() * 64);
  Gradients shared(counts, arena.resource());
  horo::GradientSync shared_sync(ctx, shared.named());
  const auto step = [&](horo::GradientSync& plan) {
    for (std::size_t i = counts.size(); i-- > 0;) plan.ready(i);
    plan.wait();
  };
  const auto write = [&] { gradients.clear(); };
  std::vector<Contender> contenders = {
      {"horo", [&] { step(sync); }, write},
      {"horo_arena", [&] { step(shared_sync); }, [&] { shared.clear(); }},
      {"mpi_per_tensor",
       [&] {
         for (std::size_t i = counts.size(); i-- > 0;)
           mpi_sum(gradients.tensors()[i].data(), counts[i]);
       },
       write},
      {"mpi_flat", [&] { mpi_sum(flat.data(), flat.size()); },
       [&] { std::ranges::fill(flat, 0.0f); }}};
  if (options.alone) contenders.resize(2);

  gradients.fill(ctx.rank());
  contenders[0].run();
  gradients.check(ctx.size(), 1, "horo");
  shared.fill(ctx.rank());
  contenders[1].run();
  shared.check(ctx.size(), 1, "horo_arena");
  shared.clear();
  if (!options.alone) {
    gradients.fill(ctx.rank());
    contenders[2].run();
    gradients.check(ctx.size(), static_cast<float>(ctx.size()), "mpi_per_tensor");
  }
  gradients.clear();

  const std::vector<Stats> stats =
      horo::bench::measure_in_turn(contenders, options.rounds, 1, MPI_COMM_WORLD);
  if (ctx.rank() != 0) return;
  fmt::print("# {}: {}, {:.1f} million values, {}, {}; medians of {}{}\n# {}\n", options.model,
             counted(std::ssize(counts), "tensor"), static_cast<double>(gradients.total()) / 1e6,
             counted(ctx.size(), "rank"),
             counted(static_cast<std::int64_t>(sync.bucket_count()), "bucket"),
             counted(options.rounds, "round"), options.alone ? "" : " in turn",
             horo::bench::describe(limits));
  nlohmann::json report = horo::bench::report_header(ctx, limits);
  report["model"] = options.model;
  report["tensors"] = counts.size();
  report["values"] = gradients.total();
  report["buckets"] = sync.bucket_count();
  print_and_write(options, std::move(report), contenders, stats);
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description description("Options");
  auto add = description.add_options();
  add("model", po::value(&options.model)->value_name("NAME")->default_value(options.model),
      "resnet50, bert-base, gpt2 or tiny1000");
  add("alone", po::bool_switch(&options.alone), "measure only horo");
  add("list-tensors", po::bool_switch(&options.list_tensors),
      "only print the model's element counts in forward order, one per line");
  add("rounds", horo::examples::count_value(options.rounds, "rounds", 1, horo::bench::kMostRounds),
      "measured rounds");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report to FILE");
  return horo::bench::benchmark_main(
      argc, argv,
      {.name = "gradient_bench",
       .purpose = "Measures the exchange of a model's gradients with horo and with plain MPI.",
       .arguments = "--model tiny1000 --rounds 5"},
      description, [&] { (void)horo::bench::gradient_set(options.model); },
      [&] {
        if (options.list_tensors)
          list_tensors(options.model);
        else
          run(options);
      });
}

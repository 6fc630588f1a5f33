// Measures horo on one GPU, and the bandwidth of its memory in the same run for comparison: packing
// and unpacking gradients, many small tensors, a step of AdamW, the latency of the chunk pipeline,
// and the host time of calls. With --gpus 2 or more, measures only an allreduce over the GPUs.
// Values are random. Every result is first checked over poisoned memory. --device host runs
// everything on the host stand-in. This tests the program; the figures have no meaning.
//
//   build/release/bin/device_bench
#include "examples/benchmarks/device/device_bench.h"

#include <fmt/core.h>

#include <iostream>

#include "examples/benchmarks/bench_program.h"
#include "examples/command_line.h"
#include "horo/base/error.h"
#include "horo/device/gpu.h"
#include "horo/device/host/host_device.h"

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

namespace {

constexpr int kSkipped = 77;

struct Options {
  std::string device = "gpu";
  std::string json;
  int samples = 21;
  std::size_t divide = 1;
  int gpus = 1;
};

void run_connections(const Options& options) {
  const bool is_gpu = options.device == "gpu";
  const auto rows =
      horo::bench::measure_connections({options.samples}, options.divide, options.gpus, is_gpu);
  if (!options.json.empty()) horo::bench::write_json({{"connections", rows}}, options.json);
}

void run(horo::device::Device& device, const Options& options) {
  const auto stream = device.make_stream();
  horo::bench::DeviceBench bench{device, *stream, {options.samples}, options.divide};
  fmt::print("{}: medians of {} (least to most)\n", device.describe(),
             horo::examples::counted(options.samples, "sample"));
  nlohmann::json report = {{"device", device.describe()}, {"divide", options.divide}};
  report["copy"] = measure_copy(bench);
  for (const char* model : {"resnet50", "gpt2"})
    for (const auto wire : {horo::DataType::kFloat32, horo::DataType::kBFloat16})
      for (auto& row : measure_moves(bench, model, wire)) report["moves"].push_back(row);
  report["small_tensors"] = measure_small_tensors(bench);
  report["adamw"] = measure_adamw(bench);
  report["latency"] = measure_latency(bench);
  report["exchange"] = measure_exchange(bench);
  report["host_times"] = measure_host_times(bench);
  if (!options.json.empty()) horo::bench::write_json(report, options.json);
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  using horo::examples::count_value;
  Options options;
  bool is_skipped = false;
  po::options_description description("Options");
  auto add = description.add_options();
  add("device", horo::examples::name_value(options.device, "device", {"gpu", "host"}),
      "gpu: the first GPU; host: the stand-in in host memory, to test the program");
  add("samples", count_value(options.samples, "samples", 1, horo::bench::kMostRounds),
      "samples per measurement");
  add("divide", count_value(options.divide, "divide", 1, 1'000'000'000),
      "divides the size of the tensors, to test the program");
  add("gpus", count_value(options.gpus, "gpus", 1, 64),
      "2 or more: measures how to connect that many GPUs, or stand-ins, and nothing else");
  add("json", po::value(&options.json)->value_name("FILE"), "write the figures to FILE");
  const int code = horo::bench::benchmark_main(
      argc, argv,
      {.name = "device_bench",
       .purpose = "Measures what horo does on one GPU beside the bandwidth of its memory.",
       .ranks = 1,
       .arguments = "--device host --divide 1000"},
      description, [] {},
      [&] {
        const int usable = options.device == "gpu" ? horo::device::count_gpus() : options.gpus;
        is_skipped = usable < options.gpus;
        if (is_skipped) {
          std::cerr << "device_bench: SKIPPED: "
                    << (usable == 0 ? "no GPU is usable here" : "fewer GPUs are usable here")
                    << "; --device host tries the program without one\n";
          return;
        }
        if (options.gpus > 1) return run_connections(options);
        if (options.device == "host") {
          horo::device::HostDevice device;
          return run(device, options);
        }
        run(*horo::device::open_gpu(0), options);
      });
  return is_skipped ? kSkipped : code;
}

// What horo does on one GPU, beside what its memory gives in the same run: packing and unpacking
// gradients, many small tensors, a step of AdamW, the way of one tensor through the chunk pipeline,
// and what the calls cost the host. Random values; every result is checked over poisoned memory
// first.
//
// --device host runs all of it on the stand-in: that the program works, figures of no meaning.
#include "examples/benchmarks/device/device_bench.h"

#include <fmt/core.h>

#include <iostream>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/bench_report.h"
#include "horo/base/device/gpu.h"
#include "horo/base/device/host_device.h"
#include "horo/base/error.h"

namespace {

constexpr int kSkipped = 77;

struct Options {
  std::string device = "gpu";
  std::string json;
  int samples = 21;
  std::size_t divide = 1;
};

void check(const Options& options) {
  HORO_CHECK(options.device == "gpu" || options.device == "host",
             "--device " + options.device + ": use gpu or host");
  HORO_CHECK(options.samples > 0 && options.divide > 0, "--samples and --divide are at least 1");
}

void run(horo::device::Device& device, const Options& options) {
  const auto stream = device.make_stream();
  horo::bench::DeviceBench bench{device, *stream, {options.samples}, options.divide};
  fmt::print("{}: medians of {} samples (least to most)\n", device.describe(), options.samples);
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
  Options options;
  bool is_skipped = false;
  boost::program_options::options_description description("device_bench");
  description.add_options()  //
      ("device", boost::program_options::value(&options.device)->default_value(options.device),
       "gpu: the first one; host: the stand-in, for tests of the program")                     //
      ("json", boost::program_options::value(&options.json), "where the figures are written")  //
      ("samples", boost::program_options::value(&options.samples)->default_value(options.samples),
       "how often everything is measured")  //
      ("divide", boost::program_options::value(&options.divide)->default_value(options.divide),
       "tensors of this part of their size, for tests of the program");
  const int code = horo::bench::benchmark_main(
      argc, argv, "device_bench", description, [&] { check(options); },
      [&] {
        if (options.device == "host") {
          horo::device::HostDevice device;
          return run(device, options);
        }
        is_skipped = horo::device::count_gpus() == 0;
        if (is_skipped)
          std::cerr << "device_bench: SKIPPED: no GPU is usable here; --device host tries the "
                       "program without one\n";
        else
          run(*horo::device::open_gpu(0), options);
      });
  return is_skipped ? kSkipped : code;
}

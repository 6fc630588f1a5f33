// Measures training steps on the GPU of this rank: forward, backward, exchange and update of a
// batch that stays on the device, submitted kernel by kernel and as a CUDA graph, without and with
// the check for gradients that are not finite. scripts/gpu_baseline.py measures PyTorch with the
// same networks, batches, types and numbers of steps. --device host runs everything on the host
// stand-in. This tests the program; the figures have no meaning.
//
//   hororun -np 1 build/release/bin/train_step_bench
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <random>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/device/device_timing.h"
#include "examples/command_line.h"
#include "horo/device/gpu.h"
#include "horo/device/host/host_device.h"
#include "horo/horo.h"
#include "ops/nn/models/models.h"
#include "ops/nn/models/resnet.h"
#include "ops/optim/sgd.h"
#include "ops/train/step/batch_upload.h"
#include "ops/train/step/train_step.h"

namespace {

using namespace horo::ops;
using horo::bench::Stats;
using horo::examples::count_value;
using horo::examples::counted;
using horo::examples::name_value;

constexpr int kSkipped = 77;
constexpr std::size_t kStepsPerSample = 4;  // STEPS_PER_SAMPLE of gpu_baseline.py

struct Options {
  std::string device = "gpu";
  std::string precision = "bfloat16";
  std::string only;
  std::string json;
  int samples = 21;
  std::size_t divide = 1;
  std::string convolutions = "graph";
  MathOptions math;
};

struct Network {
  const char* name;
  std::unique_ptr<Sequential> (*make)();
  horo::Shape sample;
  std::size_t batch;
};

const Network kNetworks[] = {
    {"mlp-784-4096-4096-10",
     [] {
       return make_mlp({.input = {784}, .hidden = {4096, 4096}, .classes = 10});
     },
     {784},
     1024},
    {"cnn-train_mnist", [] { return make_cnn(); }, {1, 28, 28}, 128},
    {"resnet20-cifar", [] { return make_resnet20(); }, {3, 32, 32}, 512},
    {"resnet18-cifar", [] { return make_resnet18(); }, {3, 32, 32}, 512},
};

/// Random samples and labels of one batch.
Batch random_batch(const Network& network, std::size_t rows) {
  std::vector<std::size_t> shape = {rows};
  for (const std::size_t dimension : network.sample.dimensions()) shape.push_back(dimension);
  Batch batch{.inputs = Tensor(horo::Shape(shape)),
              .targets = Tensor(horo::Shape{rows}, horo::DataType::kInt32),
              .samples = Tensor(horo::Shape{rows}, horo::DataType::kInt64)};
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : batch.inputs.values()) value = normal(random);
  for (std::size_t row = 0; row < rows; ++row) {
    batch.targets.data<std::int32_t>()[row] = static_cast<std::int32_t>(random() % 10);
    batch.samples.data<std::int64_t>()[row] = static_cast<std::int64_t>(row);
  }
  return batch;
}

MathOptions math_options(const Options& options) {
  MathOptions math = options.math;
  if (options.convolutions == "legacy") math.convolutions = MathOptions::Convolutions::kLegacy;
  return math;
}

/// The step of one network.
class StepBench {
 public:
  StepBench(horo::Context& context, horo::device::Device& device, const Network& network,
            const Options& options, bool check_finite)
      : device_(device),
        rows_(std::max<std::size_t>(2, network.batch / options.divide)),
        model_(network.make()),
        optimizer_(model_->parameters(), {.learning_rate = 0.01f, .momentum = 0.9f}),
        step_(context, *model_, optimizer_, loss_,
              {.device = &device,
               .type = options.precision == "float32" ? horo::DataType::kFloat32
                                                      : horo::DataType::kBFloat16},
              {.check_finite = check_finite}),
        upload_(device, step_.device_backend()->allocator()),
        batch_(upload_.upload(random_batch(network, rows_), stream())),
        begin_exchange_(device.make_timed_event()),
        end_exchange_(device.make_timed_event()) {
    step_.backend().operations().set_options(math_options(options));
  }

  std::size_t rows() const { return rows_; }

  Stats plain(const horo::bench::Repeats& repeats) {
    return horo::bench::device_time(stream(), repeats, [&](std::size_t) {
      step_.set_step(++number_);
      run(true);
    });
  }
  /// Call after plain(): its first steps let the libraries choose their kernels, which a capture
  /// cannot do.
  Stats graph(const horo::bench::Repeats& repeats) {
    horo::StepGraph graph = step_.sync().capture(stream().native(), [&] { run(false); });
    const Stats stats = horo::bench::device_time(stream(), repeats, [&](std::size_t) {
      step_.set_step(++number_);
      graph.launch();
    });
    graph.wait();
    return stats;
  }
  /// The time in microseconds that the stream of the latest plain step waited for the exchange.
  double exposed_us() const {
    stream().synchronize();
    return 1000 * device_.milliseconds_between(*begin_exchange_, *end_exchange_);
  }

 private:
  horo::device::Stream& stream() const { return step_.device_backend()->stream(); }
  void run(bool is_timed) {
    Batch batch{.inputs = batch_.inputs.shared(),
                .targets = batch_.targets.shared(),
                .samples = batch_.samples.shared()};
    Tensor logits = step_.forward(batch, {.training = true});
    step_.backward(std::move(logits), batch, static_cast<double>(rows_));
    if (is_timed) stream().record(*begin_exchange_);
    step_.exchange();
    if (is_timed) stream().record(*end_exchange_);
    step_.update();
  }

  horo::device::Device& device_;
  const std::size_t rows_;
  const std::unique_ptr<Sequential> model_;
  Sgd optimizer_;
  const CrossEntropy loss_;
  TrainStep step_;
  std::uint64_t number_ = 0;  // of the step
  BatchUpload upload_;
  const Batch batch_;
  std::unique_ptr<horo::device::Event> begin_exchange_, end_exchange_;
};

nlohmann::json measure(horo::Context& context, horo::device::Device& device, const Network& network,
                       const Options& options, bool check_finite) {
  StepBench bench(context, device, network, options, check_finite);
  const horo::bench::Repeats repeats{.samples = options.samples, .runs = kStepsPerSample};
  const Stats plain = bench.plain(repeats);
  const double exposed_us = bench.exposed_us();
  const Stats graph = bench.graph(repeats);
  const auto row = [&](const char* mode, const Stats& stats) {
    if (context.rank() == 0)
      fmt::print("{:22} {:15} {:9.3f} ms ({:.3f} to {:.3f}) {:14.0f} items/s\n", network.name,
                 fmt::format("{}{}", mode, check_finite ? ", checked" : ""), stats.median / 1e3,
                 stats.min / 1e3, stats.max / 1e3,
                 static_cast<double>(bench.rows()) / stats.median * 1e6);
    return nlohmann::json{{"case", network.name},         {"mode", mode},
                          {"check_finite", check_finite}, {"median_ms", stats.median / 1e3},
                          {"min_ms", stats.min / 1e3},    {"max_ms", stats.max / 1e3}};
  };
  nlohmann::json rows = {row("plain", plain), row("graph", graph)};
  rows[0]["exposed_us"] = exposed_us;
  if (context.rank() == 0) fmt::print("{:22} exposed communication {:.1f} us\n", "", exposed_us);
  return rows;
}

void run(horo::Context& context, horo::device::Device& device, const Options& options) {
  if (context.rank() == 0)
    fmt::print("{}, {}, {}: medians of {} (least to most)\n", device.describe(),
               counted(context.size(), "rank"), options.precision,
               counted(options.samples, "sample"));
  nlohmann::json report = {{"device", device.describe()},
                           {"ranks", context.size()},
                           {"precision", options.precision},
                           {"steps_per_sample", kStepsPerSample},
                           {"cudnn_search", "heuristic"},  // ConvolutionOptions
                           {"is_deterministic", true},
                           {"allow_tf32", false},
                           {"convolutions", options.convolutions},
                           {"reserved_multiprocessors", options.math.reserved_multiprocessors},
                           {"divide", options.divide}};
  for (const Network& network : kNetworks) {
    if (std::string_view(network.name).find(options.only) == std::string_view::npos) continue;
    for (const bool check_finite : {false, true})
      for (auto& row : measure(context, device, network, options, check_finite))
        report["rows"].push_back(row);
    // After each network, so that an interrupted run keeps its results.
    std::fflush(stdout);
    if (context.rank() == 0 && !options.json.empty()) horo::bench::write_json(report, options.json);
  }
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  bool is_skipped = false;
  po::options_description description("Options");
  auto add = description.add_options();
  add("device", name_value(options.device, "device", {"gpu", "host"}),
      "gpu: the GPU of this rank; host: the stand-in in host memory, to test the program");
  add("precision", name_value(options.precision, "precision", {"bfloat16", "float32"}),
      "element type of the computation: bfloat16 or float32");
  add("only", po::value(&options.only)->value_name("TEXT"),
      "only the networks whose names contain TEXT");
  add("samples", count_value(options.samples, "samples", 1, horo::bench::kMostRounds),
      "samples per measurement");
  add("divide", count_value(options.divide, "divide", 1, 1'000'000'000),
      "divides the batch size, to test the program");
  add("convolutions", name_value(options.convolutions, "convolutions", {"graph", "legacy"}),
      "convolutions by engines of cuDNN's graph API, or by its older functions");
  add("reserve-multiprocessors",
      count_value(options.math.reserved_multiprocessors, "reserve-multiprocessors", 0, 64),
      "the backward pass leaves this many multiprocessors to the exchange");
  add("json", po::value(&options.json)->value_name("FILE"), "write the figures to FILE");
  const int code = horo::bench::benchmark_main(
      argc, argv,
      {.name = "train_step_bench",
       .purpose = "Measures training steps on the GPU of each rank.",
       .arguments = "--device host --divide 256 --precision float32"},
      description, [] {},
      [&] {
        is_skipped = options.device == "gpu" && horo::device::count_gpus() == 0;
        if (is_skipped) {
          std::cerr << "train_step_bench: SKIPPED: no GPU is usable here; --device host tries the "
                       "program without one\n";
          return;
        }
        horo::Context context = horo::init();
        std::shared_ptr<horo::device::Device> device;
        if (options.device == "host")
          device = std::make_shared<horo::device::HostDevice>();
        else
          device = horo::open_gpu(context);
        run(context, *device, options);
      });
  return is_skipped ? kSkipped : code;
}

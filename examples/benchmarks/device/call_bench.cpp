#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "collectives/device/chunk_pipeline.h"
#include "examples/benchmarks/bench_report.h"
#include "examples/benchmarks/device/alone.h"
#include "examples/benchmarks/device/device_bench.h"
#include "examples/benchmarks/device/rotated_tensors.h"

namespace horo::bench {
namespace {

constexpr int kWarmUps = 5;
constexpr int kRunsPerSample = 50;
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;

// A tensor with the pipeline that it goes through.
struct Exchange {
  Exchange(const DeviceBench& bench, std::size_t count)
      : tensor(bench.device, bench.stream, {count}, DataType::kFloat32),
        layout(tensor[0].views, DataType::kFloat32, kChunkBytes),
        pipeline(bench.device, alone, layout.buffer_bytes(), {}),
        ready(bench.device.make_event()),
        done(bench.device.make_event()) {}

  void enqueue(device::Stream& user) {
    user.record(*ready);
    const device::Event* event = ready.get();
    pipeline.allreduce(layout, {.op = ReduceOp::kSum}, std::span(&event, 1), *done);
  }

  RotatedTensors tensor;
  collectives::FusedLayout layout;
  Alone alone;
  collectives::ChunkPipeline pipeline;
  std::unique_ptr<device::Event> ready, done;
};

}  // namespace

nlohmann::json measure_latency(const DeviceBench& bench) {
  nlohmann::json rows;
  for (const std::size_t count : {1, 1024, 262144}) {
    Exchange exchange(bench, count);
    std::vector<double> us;
    for (int run = -kWarmUps; run < bench.repeats.samples * kRunsPerSample; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      exchange.enqueue(bench.stream);
      while (!exchange.done->is_done()) {
      }
      if (run < 0) continue;
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count());
    }
    std::ranges::sort(us);
    const double p50 = us[us.size() / 2], p99 = us[us.size() * 99 / 100];
    fmt::print("{:<44} {:>10.2f} us, 99 of 100 within {:.2f} us\n",
               fmt::format("pipeline, 1 rank, {} bytes: enqueue to done", count * sizeof(float)),
               p50, p99);
    rows.push_back({{"bytes", count * sizeof(float)}, {"p50_us", p50}, {"p99_us", p99}});
  }
  return rows;
}

nlohmann::json measure_host_times(const DeviceBench& bench) {
  Exchange exchange(bench, 1024);
  const auto other = bench.device.make_stream();
  const device::Memory a = bench.device.allocate(4096), b = bench.device.allocate(4096);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"launch of a pack", [&] { exchange.tensor.pack(bench.device, bench.stream, 0, 1); }},
      {"copy of 4 KB", [&] { bench.stream.copy(a.data(), b.data(), 4096); }},
      {"record of an event", [&] { bench.stream.record(*exchange.ready); }},
      {"wait for an event", [&] { other->wait(*exchange.ready); }},
      {"question whether an event is done", [&] { exchange.ready->is_done(); }},
      {"allreduce through the pipeline", [&] { exchange.enqueue(bench.stream); }},
  };
  nlohmann::json rows;
  for (const auto& [what, call] : calls) {
    const Stats us = host_time(bench.stream, bench.repeats, call);
    fmt::print("{:<44} {:>10.2f} us ({:.2f} to {:.2f})\n", fmt::format("host: {}", what), us.median,
               us.min, us.max);
    rows.push_back({{"call", what}, {"us", to_json(us)}});
  }
  exchange.done->synchronize();
  other->synchronize();
  return rows;
}

}  // namespace horo::bench

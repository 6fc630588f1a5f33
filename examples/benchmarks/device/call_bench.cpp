#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_collectives.h"
#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/device/device_bench.h"
#include "examples/benchmarks/device/rotated_tensors.h"
#include "examples/benchmarks/gradient_sets.h"

namespace horo::bench {
namespace {

constexpr int kWarmUps = 5;
constexpr int kRunsPerSample = 50;
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;

double us_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// A set of tensors and the pipeline that exchanges them.
struct Exchange {
  Exchange(const DeviceBench& bench, const std::vector<std::size_t>& counts)
      : tensors(bench.device, bench.stream, counts, DataType::kFloat32),
        layout(tensors[0].views, DataType::kFloat32, kChunkBytes),
        pipeline(bench.device, alone, layout.buffer_bytes(), {}),
        ready(bench.device.make_event()),
        done(bench.device.make_event()) {}

  void enqueue(device::Stream& user) {
    user.record(*ready);
    const device::Event* event = ready.get();
    pipeline.allreduce(layout, {.op = ReduceOp::kSum}, std::span(&event, 1), *done);
  }

  RotatedTensors tensors;
  collectives::FusedLayout layout;
  collectives::LoneCollectives alone;
  collectives::ChunkPipeline pipeline;
  std::unique_ptr<device::Event> ready, done;
};

}  // namespace

nlohmann::json measure_latency(const DeviceBench& bench) {
  nlohmann::json rows;
  for (const std::size_t count : {1, 1024, 262144}) {
    Exchange exchange(bench, {count});
    std::vector<double> us;
    for (int run = -kWarmUps; run < bench.repeats.samples * kRunsPerSample; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      exchange.enqueue(bench.stream);
      while (!exchange.done->is_done()) {
      }
      if (run < 0) continue;
      us.push_back(us_since(begin));
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

nlohmann::json measure_exchange(const DeviceBench& bench) {
  Exchange exchange(bench, divided(gradient_set("resnet50"), bench.divide));
  const Stats whole = device_time(bench.stream, bench.repeats, [&](std::size_t) {
    exchange.enqueue(bench.stream);
    bench.stream.wait(*exchange.done);
  });
  std::vector<double> host;  // one at a time, since a full queue would block the host
  for (int run = 0; run < bench.repeats.samples; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    exchange.enqueue(bench.stream);
    host.push_back(us_since(begin));
    exchange.done->synchronize();
  }
  const Stats enqueued = stats_of(host);
  fmt::print(
      "{:<44} {:>10.2f} us ({:.2f} to {:.2f}), of the host {:.2f} us\n",
      fmt::format("pipeline, 1 rank, resnet50 in {} chunks", exchange.layout.chunks().size()),
      whole.median, whole.min, whole.max, enqueued.median);
  return {{"chunks", exchange.layout.chunks().size()},
          {"us", to_json(whole)},
          {"host_us", to_json(enqueued)}};
}

nlohmann::json measure_host_times(const DeviceBench& bench) {
  Exchange exchange(bench, {1024});
  const auto other = bench.device.make_stream();
  const device::Memory a = bench.device.allocate(4096), b = bench.device.allocate(4096);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"launch of a pack", [&] { exchange.tensors.pack(bench.device, bench.stream, 0, 1); }},
      {"copy of 4 KB", [&] { bench.stream.copy(a.data(), b.data(), 4096); }},
      {"record of an event", [&] { bench.stream.record(*exchange.ready); }},
      {"wait for an event", [&] { other->wait(*exchange.ready); }},
      {"query of an event", [&] { exchange.ready->is_done(); }},
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

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/device/host_device_collectives.h"
#include "collectives/in_process/in_process_job.h"
#include "collectives/nccl/connect_gpus.h"
#include "collectives/ring/ring_collectives.h"
#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/device/device_bench.h"
#include "horo/device/gpu.h"
#include "horo/device/host/host_device.h"

namespace horo::bench {
namespace {

using collectives::Collectives;
using collectives::DeviceCollectives;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kExchangeBytes = std::size_t{256} << 20;
constexpr std::size_t kSegmentBytes = std::size_t{1} << 20;
constexpr int kExchangeWarmUps = 3;

/// How the devices are connected and where the values lie.
struct Connection {
  std::string name;
  collectives::NcclOptions options{};
  bool is_registered = false;
};

std::vector<Connection> connections(bool is_gpu) {
  std::vector<Connection> all = {{"nonblocking"}};
  if (!is_gpu) return all;
  all.push_back({"nonblocking, registered", {}, true});
  all.push_back({"blocking", {.is_blocking = true}});
  for (const int ctas : {4, 8, 16})
    all.push_back({fmt::format("nonblocking, at most {} CTAs", ctas), {.max_ctas = ctas}});
  return all;
}

/// Runs function(transport, rank) on `ranks` threads, and rethrows the first exception.
void run_ranks(int ranks, const std::function<void(collectives::Transport&, int)>& function) {
  for (const std::exception_ptr& error : collectives::run_on_threads(ranks, {}, function))
    if (error != nullptr) std::rethrow_exception(error);
}

double elapsed_us(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// The times of one way to exchange all values: until the device is done, and of the host to
/// enqueue the calls.
struct Times {
  std::vector<double> device, host;
};

/// Sums `bytes` in calls of `chunk_bytes`.
Times measure_chunks(DeviceCollectives& made, Collectives& control, device::Stream& stream,
                     std::byte* data, std::size_t bytes, std::size_t chunk_bytes, int samples) {
  Times times;
  for (int k = -kExchangeWarmUps; k < samples; ++k) {
    control.barrier();
    const auto begin = Clock::now();
    for (std::size_t at = 0; at < bytes; at += chunk_bytes)
      made.allreduce(data + at, DataType::kFloat32,
                     std::min(chunk_bytes, bytes - at) / sizeof(float), ReduceOp::kSum, stream);
    const double host = elapsed_us(begin);
    stream.synchronize();
    if (k < 0) continue;
    times.device.push_back(elapsed_us(begin));
    times.host.push_back(host);
  }
  return times;
}

/// The ring between threads that connects the stand-ins.
struct StandIns {
  StandIns(collectives::Transport& transport, int rank, int ranks)
      : peers(transport.make_point_to_point()),
        ring(*peers, kSegmentBytes),
        collectives(ring, rank, ranks,
                    [&transport](const std::string& why) { transport.abort(why.c_str()); }) {}

  std::unique_ptr<collectives::PointToPoint> peers;
  collectives::RingCollectives ring;
  collectives::HostDeviceCollectives collectives;
};

nlohmann::json print_row(const Connection& connection, int ranks, std::size_t bytes,
                         std::size_t chunk_bytes, const Times& times) {
  const Stats device = stats_of(times.device), host = stats_of(times.host);
  const double bus = gbps(bytes, device.median) * 2 * (ranks - 1) / ranks;
  const std::size_t calls = (bytes + chunk_bytes - 1) / chunk_bytes;
  print_time(fmt::format("{}: {} calls", connection.name, calls), device);
  fmt::print(" {:>8.1f} GB/s bus, host {:.2f} us a call\n", bus,
             host.median / static_cast<double>(calls));
  return {{"connection", connection.name},
          {"ranks", ranks},
          {"bytes", bytes},
          {"calls", calls},
          {"us", to_json(device)},
          {"busbw_gbps", bus},
          {"host_us", to_json(host)}};
}

}  // namespace

nlohmann::json measure_connections(const Repeats& repeats, std::size_t divide, int ranks,
                                   bool is_gpu) {
  const std::size_t bytes = std::max<std::size_t>(kExchangeBytes / divide / 4096, 1) * 4096;
  fmt::print("allreduce of {} bytes over {} devices\n", bytes, ranks);
  nlohmann::json rows;
  for (const Connection& connection : connections(is_gpu))
    run_ranks(ranks, [&](collectives::Transport& transport, int rank) {
      const auto peers = transport.make_point_to_point();
      collectives::RingCollectives control(*peers, kSegmentBytes);
      std::unique_ptr<device::Device> own;
      std::unique_ptr<StandIns> stand_ins;
      std::unique_ptr<DeviceCollectives> nccl;
      if (is_gpu) {
        own = device::open_gpu(rank);
        nccl = collectives::connect_gpus(control, rank, ranks, "device_bench",
                                         transport.wait_policy(), connection.options);
      } else {
        own = std::make_unique<device::HostDevice>();
        stand_ins = std::make_unique<StandIns>(transport, rank, ranks);
      }
      DeviceCollectives& made = is_gpu ? *nccl : stand_ins->collectives;
      const device::Memory memory = connection.is_registered
                                        ? collectives::allocate_exchange_memory(*own, bytes)
                                        : own->allocate(bytes);
      if (connection.is_registered) made.register_memory(memory.data(), bytes, control);
      const auto stream = own->make_stream(device::Priority::kHigh);
      stream->fill(memory.data(), 0, bytes);
      for (const std::size_t parts : {1, 4, 16, 64}) {
        const std::size_t chunk = (bytes / parts + 4095) / 4096 * 4096;
        const Times times =
            measure_chunks(made, control, *stream, memory.data(), bytes, chunk, repeats.samples);
        if (rank == 0) rows.push_back(print_row(connection, ranks, bytes, chunk, times));
      }
    });
  return rows;
}

}  // namespace horo::bench

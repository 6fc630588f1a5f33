#include <fmt/core.h>

#include "examples/benchmarks/bench_program.h"
#include "examples/benchmarks/device/device_bench.h"
#include "examples/benchmarks/device/rotated_tensors.h"
#include "examples/benchmarks/gradient_sets.h"

namespace horo::bench {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 30;
constexpr int kPoison = 0xff;

}  // namespace

nlohmann::json measure_copy(DeviceBench& bench) {
  const std::size_t bytes = kCopyBytes / bench.divide;
  const device::Memory from = bench.device.allocate(bytes), to = bench.device.allocate(bytes);
  bench.stream.fill(from.data(), 1, bytes);
  bench.stream.fill(to.data(), kPoison, bytes);
  const Stats us = device_time(bench.stream, bench.repeats, [&](std::size_t) {
    bench.stream.copy(to.data(), from.data(), bytes);
  });
  bench.copy_gbps = gbps(2 * bytes, us.median);
  return bandwidth_row(bench, fmt::format("copy of {:.0f} MB", static_cast<double>(bytes) / 1e6),
                       2 * bytes, us);
}

nlohmann::json measure_moves(const DeviceBench& bench, const std::string& model, DataType wire) {
  const double scale = wire == DataType::kFloat32 ? 1 : 0.125;
  const RotatedTensors tensors(bench.device, bench.stream,
                               divided(gradient_set(model), bench.divide), wire);
  tensors.check(bench.device, bench.stream, scale);
  const Stats packed = device_time(bench.stream, bench.repeats, [&](std::size_t i) {
    tensors.pack(bench.device, bench.stream, i, scale);
  });
  const Stats unpacked = device_time(bench.stream, bench.repeats, [&](std::size_t i) {
    tensors.unpack(bench.device, bench.stream, i, 1 / scale);
  });
  const std::string set =
      fmt::format("{}, {} tensors, as {}", model, tensors[0].views.size(), name_of(wire));
  nlohmann::json rows = {bandwidth_row(bench, "pack " + set, tensors.moved_bytes(), packed),
                         bandwidth_row(bench, "unpack " + set, tensors.moved_bytes(), unpacked)};
  for (nlohmann::json& row : rows) {
    row["model"] = model;
    row["tensors"] = tensors[0].views.size();
    row["values"] = tensors.count();
    row["wire"] = name_of(wire);
  }
  return rows;
}

nlohmann::json measure_small_tensors(const DeviceBench& bench) {
  const RotatedTensors tensors(bench.device, bench.stream,
                               divided(std::vector<std::size_t>(512, 3072), bench.divide),
                               DataType::kFloat32);
  tensors.check(bench.device, bench.stream, 1);
  const Stats one_launch = device_time(bench.stream, bench.repeats, [&](std::size_t i) {
    tensors.pack(bench.device, bench.stream, i, 1);
  });
  const Stats copies = device_time(bench.stream, bench.repeats, [&](std::size_t i) {
    std::byte* to = tensors[i].buffer.data();
    for (const TensorView& view : tensors[i].views) {
      bench.stream.copy(to, view.data(), view.bytes());
      to += view.bytes();
    }
  });
  const double ratio = copies.median / one_launch.median;
  print_time("512 tensors of 12 KB: one launch", one_launch);
  fmt::print("\n");
  print_time("512 tensors of 12 KB: a copy for each", copies);
  fmt::print(" {:>8.1f} times one launch\n", ratio);
  return {{"one_launch_us", to_json(one_launch)},
          {"copies_us", to_json(copies)},
          {"copies_per_launch", ratio}};
}

}  // namespace horo::bench

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "examples/benchmarks/device/device_bench.h"
#include "examples/benchmarks/device/rotated_tensors.h"
#include "examples/benchmarks/gradient_sets.h"
#include "horo/base/error.h"
#include "ops/backend/device/update/update.h"
#include "ops/optim/update_rules.h"

namespace horo::bench {
namespace {

namespace kernels = ops::device_kernels;

/// The float32 arrays of AdamW: one block per kind of array, with tensors at multiples of 16 bytes.
class AdamWArrays {
 public:
  AdamWArrays(device::Device& device, device::Stream& stream,
              const std::vector<std::size_t>& counts) {
    std::size_t padded = 0;
    for (const std::size_t count : counts) padded += (count + 3) / 4 * 4;
    for (std::size_t kind = 0; kind < arrays_.size(); ++kind) {
      arrays_[kind] = device.allocate(padded * sizeof(float));
      // Values and gradients all have the same small number; moments are 0.
      stream.fill(arrays_[kind].data(), kind == 0 || kind == 3 ? kByte : 0, padded * sizeof(float));
    }
    std::size_t at = 0;
    for (const std::size_t count : counts) {
      tensors_.push_back(
          {array(0) + at, array(1) + at, array(2) + at, array(3) + at, nullptr, count});
      count_ += count;
      at += (count + 3) / 4 * 4;
    }
  }

  std::size_t count() const { return count_; }
  void step(device::Stream& stream, std::int64_t number) const {
    kernels::update_adamw(stream, tensors_, {}, {}, number);
  }
  // Throws if the last value is not the correct result of the first step.
  void check(device::Device& device, device::Stream& stream) const {
    std::uint32_t bits = 0x01010101u * static_cast<unsigned>(kByte);
    const float start = std::bit_cast<float>(bits);
    float expected = start;
    float state[2] = {};
    ops::rule_of({}, 1)(expected, state, start);
    const device::Memory pinned = device.allocate_pinned(sizeof(float));
    stream.copy(pinned.data(), tensors_.back().value + tensors_.back().count - 1, sizeof(float));
    stream.synchronize();
    const float found = *reinterpret_cast<const float*>(pinned.data());
    if (!(std::abs(found - expected) <= 1e-5f * std::abs(expected)))
      throw Error(fmt::format("AdamW computed {} from {}; expected {}", found, start, expected));
  }

 private:
  static constexpr int kByte = 0x3c;
  float* array(std::size_t kind) const { return reinterpret_cast<float*>(arrays_[kind].data()); }

  std::array<device::Memory, 4> arrays_;  // values, moments, gradients
  std::vector<kernels::AdamWTensor> tensors_;
  std::size_t count_ = 0;
};

}  // namespace

nlohmann::json measure_adamw(const DeviceBench& bench) {
  const AdamWArrays arrays(bench.device, bench.stream, divided(gradient_set("gpt2"), bench.divide));
  arrays.step(bench.stream, 1);
  arrays.check(bench.device, bench.stream);
  const Stats us = device_time(bench.stream, bench.repeats, [&](std::size_t i) {
    arrays.step(bench.stream, static_cast<std::int64_t>(i) + 2);
  });
  // Four arrays are read and three are written.
  nlohmann::json row = bandwidth_row(bench, "AdamW, gpt2's values, one launch",
                                     7 * sizeof(float) * arrays.count(), us);
  row["values"] = arrays.count();
  return row;
}

}  // namespace horo::bench

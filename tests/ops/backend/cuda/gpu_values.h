#pragma once

#include <memory>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/float16.h"
#include "horo/device/gpu.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/device_array.h"

namespace horo::ops::cuda {

/// The first GPU, with a stream and workspace, for tests that compare with the reference.
struct GpuBench {
  std::unique_ptr<device::Device> gpu = device::open_gpu(0);
  std::unique_ptr<device::Stream> stream = gpu->make_stream();
  device::Memory memory = gpu->allocate(std::size_t{64} << 20);

  std::span<std::byte> workspace() const { return {memory.data(), memory.size()}; }
  template <typename T>
  device::DeviceArray<T> upload(const std::vector<T>& values) {
    return device::DeviceArray<T>(*gpu, *stream, values);
  }
  /// An array filled with NaN, so that the test detects elements that are not written.
  template <typename T>
  device::DeviceArray<T> unwritten(std::size_t count) {
    device::DeviceArray<T> array(*gpu, count);
    stream->fill(array.data(), 0xff, count * sizeof(T));
    return array;
  }
};

/// Values in (-1, 1) that T represents exactly.
template <typename T>
std::vector<T> values_as(std::size_t count, std::uint32_t seed) {
  std::vector<T> values;
  for (const float value : varied_values(count, seed)) values.push_back(T(value));
  return values;
}

template <typename T>
reference::Values doubles_of(const std::vector<T>& values) {
  reference::Values result;
  for (const T value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

template <typename T>
std::vector<float> floats_of(const std::vector<T>& values) {
  std::vector<float> result;
  for (const T value : values) result.push_back(static_cast<float>(value));
  return result;
}

/// The tolerance of a sum of `terms` products of values in (-1, 1), computed in float32 and rounded
/// to T.
template <typename T>
double tolerance_of(std::size_t terms) {
  const double sum = 1e-6 * static_cast<double>(terms);
  return sizeof(T) == 2 ? 1e-2 + sum : 1e-5 + sum;
}

template <typename T>
constexpr DataType type_of() {
  return sizeof(T) == 2 ? DataType::kBFloat16 : DataType::kFloat32;
}

}  // namespace horo::ops::cuda

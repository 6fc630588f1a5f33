#include "collectives/reduce/tensor_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "collectives/compression/lane_sum.h"
#include "collectives/reduce/kernels.h"

namespace horo::collectives {
namespace {

// 16-bit values are converted to float32 in blocks of this many elements. A block stays in the L1
// cache.
constexpr std::size_t kBlock = 2048;

constexpr bool is_half(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBFloat16;
}

template <typename Function>
void for_each_block(DataType half, const std::byte* data, std::size_t count, Function&& function) {
  std::array<float, kBlock> block;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    widen(half, reinterpret_cast<std::byte*>(block.data()), data + first * size_of(half), n);
    function(first, std::span(block.data(), n));
  }
}

template <typename T>
void multiply(T* data, std::size_t count, T factor) {
  for (std::size_t i = 0; i < count; ++i) data[i] *= factor;
}

template <typename T>
std::optional<NonFiniteValue> find_non_finite(const T* data, std::size_t count) {
  const T* found = std::find_if(data, data + count, [](T x) { return !std::isfinite(x); });
  if (found == data + count) return std::nullopt;
  return NonFiniteValue{static_cast<std::size_t>(found - data), static_cast<double>(*found)};
}

}  // namespace

void scale(DataType type, std::byte* data, std::size_t count, double factor) {
  if (is_half(type)) {
    for_each_block(type, data, count, [&](std::size_t first, std::span<float> block) {
      multiply(block.data(), block.size(), static_cast<float>(factor));
      narrow(type, data + first * size_of(type), reinterpret_cast<const std::byte*>(block.data()),
             block.size());
    });
  } else if (type == DataType::kFloat32) {
    multiply(reinterpret_cast<float*>(data), count, static_cast<float>(factor));
  } else if (type == DataType::kFloat64) {
    multiply(reinterpret_cast<double*>(data), count, factor);
  }
}

void set_zero(const TensorView& tensor) {
  if (tensor.count() > 0) std::memset(tensor.data(), 0, tensor.bytes());
}

double sum_of_squares(DataType type, const std::byte* data, std::size_t count) {
  if (type == DataType::kFloat32)
    return sum_of_squares({reinterpret_cast<const float*>(data), count});
  if (type == DataType::kFloat64) {
    const auto* values = reinterpret_cast<const double*>(data);
    return sum_in_lanes<double>(count, [&](std::size_t i) { return values[i] * values[i]; });
  }
  double sum = 0;
  if (is_half(type))
    for_each_block(type, data, count,
                   [&](std::size_t, std::span<float> block) { sum += sum_of_squares(block); });
  return sum;
}

// For 16-bit types, for_each_block() has no early exit. Blocks after the first non-finite value are
// widened but not searched.
std::optional<NonFiniteValue> find_non_finite(DataType type, const std::byte* data,
                                              std::size_t count) {
  if (type == DataType::kFloat32)
    return find_non_finite(reinterpret_cast<const float*>(data), count);
  if (type == DataType::kFloat64)
    return find_non_finite(reinterpret_cast<const double*>(data), count);
  std::optional<NonFiniteValue> found;
  if (is_half(type))
    for_each_block(type, data, count, [&](std::size_t first, std::span<float> block) {
      if (found) return;
      found = find_non_finite(block.data(), block.size());
      if (found) found->index += first;
    });
  return found;
}

}  // namespace horo::collectives

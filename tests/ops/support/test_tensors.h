#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ops/nn/layer.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {

inline Tensor tensor_of(Shape shape, const std::vector<float>& values) {
  Tensor tensor(std::move(shape));
  EXPECT_EQ(tensor.count(), values.size());
  std::ranges::copy(values, tensor.data());
  return tensor;
}

inline Tensor varied_tensor(const Shape& shape, std::uint32_t seed) {
  return tensor_of(shape, varied_values(shape.count(), seed));
}

inline std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.values().begin(), tensor.values().end()};
}

inline void assign(Tensor& tensor, const std::vector<float>& values) {
  ASSERT_EQ(tensor.count(), values.size());
  std::ranges::copy(values, tensor.data());
}

/// Gives every parameter different values.
inline void vary_parameters(Layer& layer) {
  std::uint32_t seed = 100;
  for (Parameter* parameter : layer.parameters()) {
    assign(parameter->value, varied_values(parameter->value.count(), ++seed));
  }
}

/// The global indices of a batch that begins at `first`.
inline std::vector<std::uint64_t> sample_indices(std::size_t count, std::uint64_t first = 0) {
  std::vector<std::uint64_t> indices(count);
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

/// The text of the exception of type E that `function` throws.
template <typename E, typename Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace horo::ops

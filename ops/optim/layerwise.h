#pragma once

#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "ops/backend/backend.h"
#include "ops/backend/device/update/layerwise_update.h"
#include "ops/nn/layer.h"

// Private to ops/optim: the common parts of optimizers that use norms of whole parameters.

namespace horo::ops {

/// Whether a parameter has a rate of its own layer.
inline bool is_matrix(const Parameter& parameter) { return parameter.value.shape().rank() >= 2; }

/// The scratch memory of the kernels, on the device of `backend`.
inline Tensor layerwise_scratch(Backend& backend, std::span<Parameter* const> parameters) {
  std::vector<std::size_t> counts;
  for (const Parameter* parameter : parameters) counts.push_back(parameter->value.count());
  return backend.allocate({device_kernels::layerwise_scratch_bytes(counts)}, DataType::kUInt8);
}

/// Calls use(value, own states, gradient) for each element of a parameter in host memory, and keeps
/// the states that it changes.
template <std::size_t kStates, typename Use>
void for_each_value(Parameter& parameter, const std::array<std::span<float>, kStates>& states,
                    Use use) {
  const auto value = parameter.value.values();
  const auto gradient = std::as_const(parameter.gradient).values();
  for (std::size_t i = 0; i < value.size(); ++i) {
    float own[kStates];
    for (std::size_t s = 0; s < kStates; ++s) own[s] = states[s][i];
    use(value[i], own, gradient[i]);
    for (std::size_t s = 0; s < kStates; ++s) states[s][i] = own[s];
  }
}

/// Updates a parameter in host memory with LarsRule or LambRule.
template <typename Rule>
void update_layer(Rule rule, Parameter& parameter,
                  const std::array<std::span<float>, Rule::kStates>& states) {
  double values = 0, directions = 0;
  for_each_value(parameter, states, [&](float& value, float* own, float gradient) {
    const double direction = rule.measure(value, own, gradient);
    values += static_cast<double>(value) * static_cast<double>(value);
    directions += direction * direction;
  });
  rule.ratio = rule.ratio_of(std::sqrt(values), std::sqrt(directions));
  for_each_value(parameter, states, rule);
}

}  // namespace horo::ops

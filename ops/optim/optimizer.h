#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Updates the parameters of a model with their gradients. Ranks with equal values, state and
/// gradients stay bit-identical. Used from one thread at a time.
class Optimizer {
 public:
  /// State per parameter that is kept between steps.
  struct State {
    std::string_view name;
    std::span<Tensor> tensors;  ///< of parameters(), in order, and of the same shapes
  };

  virtual ~Optimizer() = default;

  /// Updates every parameter with its gradient. Does not change the gradients.
  virtual void step() = 0;
  /// Throws InvalidArgument unless the rate is finite and at least 0.
  virtual void set_learning_rate(float learning_rate) = 0;
  virtual float learning_rate() const = 0;
  virtual std::span<Parameter* const> parameters() const = 0;

  // With the values of the parameters, these make up a checkpoint and must be equal on all ranks.
  virtual std::vector<State> states() = 0;
  /// Integer state, such as the number of steps.
  virtual std::span<std::int64_t> counters() { return {}; }
};

}  // namespace horo::ops

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Updates the parameters of a model with their gradients. Every rank that starts from the same
/// values and state, and steps with the same gradients, stays bit-identical. Used from one thread
/// at a time.
class Optimizer {
 public:
  /// What it keeps between steps of every parameter.
  struct State {
    std::string_view name;
    std::span<Tensor> tensors;  ///< of parameters(), in order, and of the same shapes
  };

  virtual ~Optimizer() = default;

  /// Updates every parameter with its gradient. The gradients stay as they are.
  virtual void step() = 0;
  /// Throws InvalidArgument unless it is a number of at least 0.
  virtual void set_learning_rate(float learning_rate) = 0;
  virtual float learning_rate() const = 0;
  virtual std::span<Parameter* const> parameters() const = 0;

  // With the parameters' values, what a checkpoint has to hold and ranks have to share.
  virtual std::vector<State> states() = 0;
  /// Whole numbers beside them, such as how many steps there were.
  virtual std::span<std::int64_t> counters() { return {}; }
};

}  // namespace horo::ops

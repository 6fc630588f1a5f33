#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/nn/layer.h"

namespace horo::ops {

struct AdamWOptions {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;          ///< in [0, 1): how much of the mean gradient is kept
  float beta2 = 0.999f;        ///< in [0, 1): the same of its square
  float epsilon = 1e-8f;       ///< above 0
  float weight_decay = 0.01f;  ///< this times the learning rate of every value goes in each step
};

/// Adam with decoupled weight decay. In step t, per value, in one pass over memory:
///   m = beta1 * m + (1 - beta1) * gradient;  v = beta2 * v + (1 - beta2) * gradient^2;
///   value -= learning_rate * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///                             + weight_decay * value).
/// Every rank that starts from the same values and steps with the same gradients stays
/// bit-identical. Used from one thread at a time. Source: Loshchilov, Hutter, "Decoupled weight
/// decay regularization" (ICLR 2019).
class AdamW {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range.
  AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options);

  /// Updates every parameter with its gradient. The gradients stay as they are.
  void step();

  void set_learning_rate(float learning_rate);
  float learning_rate() const { return options_.learning_rate; }
  const AdamWOptions& options() const { return options_; }
  /// m and v of every parameter, in the order of the constructor and of the same shape; to be saved
  /// and restored with a checkpoint, as the number of steps is.
  std::span<Tensor> first_moments() { return first_; }
  std::span<Tensor> second_moments() { return second_; }
  std::int64_t steps() const { return steps_; }
  /// Throws InvalidArgument unless steps >= 0.
  void set_steps(std::int64_t steps);

 private:
  std::vector<Parameter*> parameters_;
  AdamWOptions options_;
  std::int64_t steps_ = 0;
  std::vector<Tensor> first_, second_;
};

}  // namespace horo::ops

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/optim/optimizer.h"

namespace horo::ops {

struct AdamWOptions {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;          ///< in [0, 1): decay rate of the mean gradient
  float beta2 = 0.999f;        ///< in [0, 1): decay rate of the mean squared gradient
  float epsilon = 1e-8f;       ///< above 0
  float weight_decay = 0.01f;  ///< each step subtracts rate * this * value
};

/// Adam with decoupled weight decay. In step t, per value, in one pass over memory:
///   m = beta1 * m + (1 - beta1) * gradient;  v = beta2 * v + (1 - beta2) * gradient^2;
///   value -= learning_rate * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///                             + weight_decay * value).
/// Source: Loshchilov, Hutter, "Decoupled weight
/// decay regularization" (ICLR 2019).
class AdamW : public Optimizer {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range.
  AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options);

  void set_learning_rate(float learning_rate) override;
  float learning_rate() const override { return options_.learning_rate; }
  const AdamWOptions& options() const { return options_; }
  std::string describe() const override;
  /// m and v of every parameter, in the order of the constructor and with the same shapes. A
  /// checkpoint must contain them and the number of steps.
  std::span<Tensor> first_moments() { return first_; }
  std::span<Tensor> second_moments() { return second_; }
  std::int64_t steps() const { return steps_; }
  /// Throws InvalidArgument unless steps >= 0.
  void set_steps(std::int64_t steps);
  /// "first_moment" and "second_moment": the same.
  std::vector<State> states() override;
  /// The number of steps.
  std::span<std::int64_t> counters() override { return {&steps_, 1}; }

 private:
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;
  void leave_device() override;
  void enter_device() override;

  AdamWOptions options_;
  std::int64_t steps_ = 0;
  /// A device_kernels::AdamWClock in device memory: only a device knows which steps it skips.
  Tensor clock_;
  std::vector<Tensor> first_, second_;
};

}  // namespace horo::ops

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/optim/optimizer.h"

namespace horo::ops {

namespace device_kernels {
struct AdamWClock;
struct AdamWTensor;
}  // namespace device_kernels
struct AdamWRule;
template <typename Entry>
struct UpdateGroup;

/// The options of AdamW.
struct AdamWOptions {
  float learning_rate = 1e-3f;  ///< at least 0
  float beta1 = 0.9f;           ///< in [0, 1): decay rate of the mean gradient
  float beta2 = 0.999f;         ///< in [0, 1): decay rate of the mean squared gradient
  float epsilon = 1e-8f;        ///< above 0
  float weight_decay = 0.01f;   ///< each step subtracts rate * this * value
  /// If true, Adam: this times the value is added to the gradient instead, as L2 regularisation.
  bool coupled_decay = false;
};

/// Adam with decoupled weight decay, or Adam. In step t, per value, in one pass over memory:
///   m = beta1 * m + (1 - beta1) * gradient;  v = beta2 * v + (1 - beta2) * gradient^2;
///   value -= learning_rate * (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///                             + weight_decay * value).
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization" (ICLR 2019).
class AdamW : public Optimizer {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range.
  AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options);

  void set_learning_rate(float learning_rate) override;
  float learning_rate() const override { return options_.learning_rate; }
  /// The options of the constructor.
  const AdamWOptions& options() const { return options_; }
  /// m and v of every parameter, in the order of the constructor and with the same shapes; the
  /// states "first_moment" and "second_moment".
  std::span<Tensor> first_moments() { return state(0); }
  /// The mean squared gradients; see first_moments().
  std::span<Tensor> second_moments() { return state(1); }
  /// The number of steps, as of the latest update_counters().
  std::int64_t steps() const { return steps_; }
  /// Throws InvalidArgument unless steps >= 0.
  void set_steps(std::int64_t steps);
  /// The number of steps.
  std::span<std::int64_t> counters() override { return {&steps_, 1}; }
  void update_counters() override;

 protected:
  /// For an optimizer that updates some of the parameters in another way. `name` is that of the
  /// optimizer in errors.
  AdamW(std::vector<Parameter*> parameters, const AdamWOptions& options, std::string name);

  std::string describe_options() const override;
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;
  void leave_device() override;
  void enter_device() override;

  /// Counts a step and returns its rule, without the factors of a parameter.
  AdamWRule count_step();
  /// The same on a device, in the clock.
  void count_step(device::Stream& stream, const StepGradients& gradients);
  /// Updates parameter `index` in host memory with the rule of the step.
  void update_on_host(std::size_t index, const AdamWRule& rule);
  /// Updates the selected parameters on a device.
  void update_on_device(device::Stream& stream, const StepGradients& gradients,
                        const Selection& is_selected);
  /// The selected parameters, for launches on a device.
  std::vector<UpdateGroup<device_kernels::AdamWTensor>> device_groups(
      const StepGradients& gradients, const Selection& is_selected);
  /// In device memory: only a device knows which steps it skips.
  device_kernels::AdamWClock* clock();

 private:
  const std::string name_;
  AdamWOptions options_;
  std::int64_t steps_ = 0;
  Tensor clock_;  // a device_kernels::AdamWClock
};

}  // namespace horo::ops

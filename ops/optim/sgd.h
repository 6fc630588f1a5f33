#pragma once

#include <span>
#include <vector>

#include "ops/optim/optimizer.h"

namespace horo::ops {

struct SgdOptions {
  float learning_rate = 0.01f;
  float momentum = 0.0f;      ///< in [0, 1); 0.9 is usual
  float weight_decay = 0.0f;  ///< L2: this times the value is added to the gradient
  bool nesterov = false;      ///< use Nesterov momentum; needs a momentum above 0
};

/// Stochastic gradient descent. Per step and value, in one pass over memory:
///   g = gradient + weight_decay * value;  m = momentum * m + g;
///   value -= learning_rate * (nesterov ? g + momentum * m : m).
class Sgd : public Optimizer {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range.
  Sgd(std::vector<Parameter*> parameters, const SgdOptions& options);

  void set_learning_rate(float learning_rate) override;
  float learning_rate() const override { return options_.learning_rate; }
  const SgdOptions& options() const { return options_; }
  std::string describe() const override;
  /// m of every parameter, in the order of the constructor and with the same shapes. A checkpoint
  /// must contain them. Empty without momentum.
  std::span<Tensor> momentum_buffers() { return momenta_; }
  /// "momentum": the same; none without.
  std::vector<State> states() override;

 private:
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;

  SgdOptions options_;
  std::vector<Tensor> momenta_;
};

}  // namespace horo::ops

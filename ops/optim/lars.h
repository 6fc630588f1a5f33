#pragma once

#include <string>
#include <vector>

#include "ops/optim/sgd.h"

namespace horo::ops {

/// The options of Lars.
struct LarsOptions {
  float learning_rate = 1;  ///< of at least 0; much larger than that of Sgd
  float momentum = 0.9f;    ///< above 0 and below 1
  float weight_decay = 0;   ///< as SgdOptions::weight_decay
  /// The change of a matrix per step, relative to its norm, at a learning rate of 1 and without
  /// momentum. Above 0.
  float trust_coefficient = 1e-3f;
};

/// SGD with momentum and layer-wise adaptive rates, for large batches. In a step, per parameter of
/// two or more dimensions, with Euclidean norms of the whole parameter:
///   ratio = trust_coefficient * |value| / (|gradient| + weight_decay * |value|);
///   m = momentum * m + ratio * (gradient + weight_decay * value);  value -= learning_rate * m.
/// The ratio is 1 if a norm is 0. Vectors (biases, normalisation) are updated as by Sgd; since the
/// learning rate is large, give them a smaller one with a ParameterRule. On a device the norms stay
/// there. Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks" (2017).
class Lars : public Sgd {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range.
  Lars(std::vector<Parameter*> parameters, const LarsOptions& options);

  bool needs_whole_parameters() const override { return true; }

 private:
  std::string describe_options() const override;
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;
  void enter_device() override;
  void leave_device() override { scratch_ = Tensor(); }
  LarsOptions current_options() const;

  const float trust_coefficient_;
  Tensor scratch_;  // on a device
};

}  // namespace horo::ops

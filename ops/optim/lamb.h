#pragma once

#include <string>
#include <vector>

#include "ops/optim/adamw.h"

namespace horo::ops {

/// AdamW with layer-wise adaptive rates, for large batches. In a step, per parameter of two or more
/// dimensions, with Euclidean norms of the whole parameter and the m and v of AdamW:
///   direction = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * value;
///   value -= learning_rate * |value| / |direction| * direction.
/// The ratio is 1 if a norm is 0, and for vectors (biases, normalisation), which are updated as by
/// AdamW. On a device the norms stay there. Source: You et al., "Large batch optimization for deep
/// learning: training BERT in 76 minutes" (ICLR 2020).
class Lamb : public AdamW {
 public:
  /// Borrows the parameters: they must outlive this. Throws InvalidArgument for options out of
  /// range, and for coupled_decay.
  Lamb(std::vector<Parameter*> parameters, const AdamWOptions& options);

  bool needs_whole_parameters() const override { return true; }

 private:
  void update_on_host() override;
  void update_on_device(device::Stream& stream, const StepGradients& gradients) override;
  void enter_device() override;
  void leave_device() override;

  Tensor scratch_;  // on a device
};

}  // namespace horo::ops

#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// Averages the gradients of a model over the ranks while backward computes them, and the loss
/// along with them: it is one more element of the first bucket, so that it costs no message of its
/// own. Used from one thread, once per step: loss_ready(), gradient_ready() for each parameter,
/// wait().
class GradientExchange {
 public:
  /// Collective. Moves the gradients to an arena (see move_to_arena). The parameters must outlive
  /// this and keep their gradients' memory from then on. Throws
  /// MismatchError if the models of the ranks differ.
  GradientExchange(Context& context, const std::vector<Parameter*>& parameters,
                   const Compression& compression = {});
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// This rank's loss of the step.
  void loss_ready(double loss);
  /// The gradient of `parameter` is final. Throws InvalidArgument for one that was not registered.
  void gradient_ready(const Parameter& parameter);
  /// Blocks until all gradients are averaged; returns the average loss.
  float wait();
  CompressionReport compression_report() const { return sync_.compression_report(); }

 private:
  std::unordered_map<const Parameter*, std::size_t> index_of_;
  Tensor loss_;  // one element
  GradientSync sync_;
};

}  // namespace horo::ops

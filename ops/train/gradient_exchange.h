#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// How gradients are exchanged; see GradientSyncOptions.
struct ExchangeOptions {
  ReduceOp op = ReduceOp::kAverage;
  Compression compression{};
};

/// Averages the gradients of a model over the ranks (or combines them as `op` says) while backward
/// computes them, and averages the loss: along with averaged gradients it is one more element of
/// the first bucket, so that it costs no message of its own. Used from one thread, once per step:
/// loss_ready(), gradient_ready() for each parameter, wait().
class GradientExchange {
 public:
  /// Collective. Moves the gradients to an arena (see move_to_arena). The parameters must outlive
  /// this and keep their gradients' memory from then on. Throws
  /// MismatchError if the models of the ranks differ.
  GradientExchange(Context& context, const std::vector<Parameter*>& parameters,
                   const ExchangeOptions& options = {});
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// This rank's loss of the step.
  void loss_ready(double loss);
  /// The gradient of `parameter` is final. Throws InvalidArgument for one that was not registered.
  void gradient_ready(const Parameter& parameter);
  /// Blocks until all gradients are reduced; returns the average loss.
  float wait();
  CompressionReport compression_report() const { return sync_.compression_report(); }

 private:
  std::unordered_map<const Parameter*, std::size_t> index_of_;
  Tensor loss_;  // one element
  GradientSync sync_;
  std::optional<GradientSync> loss_sync_;  // if the gradients are not averaged
};

}  // namespace horo::ops

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
  /// How many backward passes make a step; their gradients and losses are added up.
  std::size_t passes = 1;
  std::optional<double> clip_norm{};
  bool check_finite = false;
};

/// Averages the gradients of a model over the ranks (or combines them as `op` says) while backward
/// computes them, and averages the loss: along with averaged gradients it is one more element of
/// the first bucket, so that it costs no message of its own. Used from one thread, in each pass:
/// loss_ready(), gradient_ready() for each parameter, then end_pass(), or wait() in the last one.
/// Backward overwrites gradients, so those of earlier passes are kept aside: as much memory again,
/// if a step has more than one.
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
  /// Keeps the gradients of a pass that is not the last one.
  void end_pass();
  /// Blocks until all gradients are reduced; returns the average loss.
  float wait();
  /// Of the latest wait().
  const StepReport& report() const { return *report_; }
  CompressionReport compression_report() const { return sync_.compression_report(); }

 private:
  bool is_last_pass() const { return pass_ + 1 == passes_; }

  std::unordered_map<const Parameter*, std::size_t> index_of_;
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> sums_;  // of the passes before this one; empty if there is only one
  std::size_t passes_;
  std::size_t pass_ = 0;
  double loss_sum_ = 0;
  Tensor loss_;  // one element
  GradientSync sync_;
  std::optional<GradientSync> loss_sync_;  // if the gradients are not averaged
  const StepReport* report_ = nullptr;
};

}  // namespace horo::ops

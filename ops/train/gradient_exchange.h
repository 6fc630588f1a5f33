#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layer.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// Moves the tensors with their values into one arena (Context::allocate), which they own together.
/// Collective. The tensors stay where they are if a node has too little shared memory, which rank 0
/// logs, or if every node has one rank.
void move_to_arena(Context& context, std::span<Tensor* const> tensors);

/// See GradientSyncOptions.
struct ExchangeOptions {
  ReduceOp op = ReduceOp::kAverage;
  Compression compression{};
  /// Backward passes per step; their gradients and losses are summed.
  std::size_t passes = 1;
  std::optional<double> clip_norm{};
  bool check_finite = false;
};

/// Reduces the gradients of a model with `op` while backward computes them, and averages the loss.
/// With averaged gradients the loss is one more element of the first bucket and needs no message of
/// its own. Used from one thread. Each pass calls loss_ready(), gradient_ready() for each
/// parameter, then end_pass(), or wait() in the last pass. Backward overwrites the gradients, so
/// steps with several passes keep a second copy: the sum of the passes.
class GradientExchange {
 public:
  /// Collective. Moves the gradients to an arena, see move_to_arena(). The parameters must outlive
  /// this object, and their gradients must not move. Throws MismatchError if the models of the
  /// ranks differ.
  GradientExchange(Context& context, const std::vector<Parameter*>& parameters,
                   const ExchangeOptions& options = {});
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// The loss of this rank.
  void loss_ready(double loss);
  /// Marks the gradient of `parameter` as final. Throws InvalidArgument if it is not registered.
  void gradient_ready(const Parameter& parameter);
  /// Adds the gradients of a pass that is not the last one to the sum.
  void end_pass();
  /// Blocks until all gradients are reduced. Returns the average loss.
  float wait();
  /// Of the latest wait().
  const StepReport& report() const { return *report_; }
  CompressionReport compression_report() const { return sync_.compression_report(); }

 private:
  bool is_last_pass() const { return pass_ + 1 == passes_; }

  std::unordered_map<const Parameter*, std::size_t> index_of_;
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> sums_;  // of the previous passes; empty with one pass per step
  std::size_t passes_;
  std::size_t pass_ = 0;
  double loss_sum_ = 0;
  Tensor loss_;  // one element
  GradientSync sync_;
  std::optional<GradientSync> loss_sync_;  // set unless the gradients are averaged
  const StepReport* report_ = nullptr;
};

}  // namespace horo::ops

#pragma once

#include <optional>

#include "ops/optim/optimizer.h"
#include "ops/train/gradient_exchange.h"
#include "ops/train/replica.h"

namespace horo::ops {

/// The model itself, in host memory. end_step() returns when the step is complete.
class HostReplica : public Replica {
 public:
  /// Borrows all arguments. With options.check_finite a step with a non-finite value updates
  /// nothing.
  HostReplica(Context& context, Layer& model, Optimizer& optimizer, const ExchangeOptions& options,
              EnterPhase enter);

  void share_state() override;
  void begin_step(std::uint64_t step, std::optional<float> learning_rate) override;
  void run_pass(Batch batch, const Pass& pass, double normaliser) override;
  void end_pass() override { exchange_->end_pass(); }
  void end_step() override;
  std::optional<StepOutcome> next_outcome(bool wait) override;
  std::size_t count_correct(Batch batch) override;
  void average_buffers() override;
  void bring_back() override {}
  CompressionFigures compression() const override { return exchange_->compression_report().total; }

 private:
  Context& context_;
  Layer& model_;
  Optimizer& optimizer_;
  const EnterPhase enter_;
  const ExchangeOptions options_;
  std::optional<GradientExchange> exchange_;  // set by share_state()
  std::optional<StepOutcome> outcome_;
};

}  // namespace horo::ops

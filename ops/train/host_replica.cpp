#include "ops/train/host_replica.h"

#include <utility>

#include "ops/nn/cross_entropy_loss.h"
#include "ops/train/evaluation.h"
#include "ops/train/model_state.h"

namespace horo::ops {

HostReplica::HostReplica(Context& context, Layer& model, Optimizer& optimizer,
                         const ExchangeOptions& options, EnterPhase enter)
    : context_(context),
      model_(model),
      optimizer_(optimizer),
      enter_(std::move(enter)),
      options_(options) {}

void HostReplica::share_state() {
  broadcast_state(context_, model_, optimizer_);
  exchange_.emplace(context_, model_.parameters(), options_);
}

void HostReplica::begin_step(std::uint64_t, std::optional<float> learning_rate) {
  if (learning_rate) optimizer_.set_learning_rate(*learning_rate);
}

void HostReplica::run_pass(Batch batch, const Pass& pass, double normaliser) {
  enter_(StepPhase::kForward);
  Pass of_batch = pass;
  of_batch.samples = batch.samples;
  Tensor logits = model_.forward(std::move(batch.inputs), of_batch);
  CrossEntropyLoss loss = cross_entropy_loss(std::move(logits), batch.labels, normaliser);
  enter_(StepPhase::kBackward);
  // The loss is submitted before the gradients, so its reduction overlaps with the backward pass.
  exchange_->loss_ready(loss.value);
  model_.backward(std::move(loss.gradient),
                  [&](const Parameter& parameter) { exchange_->gradient_ready(parameter); });
}

void HostReplica::end_step() {
  enter_(StepPhase::kExposedCommunication);
  outcome_ = {.loss = exchange_->wait()};
  enter_(StepPhase::kOptimizer);
  const StepReport& report = exchange_->report();
  outcome_->was_clipped = report.was_clipped;
  // The report is computed from the reduced gradients and is equal on all ranks, so all of them
  // skip the step or none does.
  if (options_.check_finite && !report.is_finite)
    outcome_->why_skipped = report.non_finite ? report.non_finite->describe() : "not finite";
  else
    optimizer_.step();
}

std::optional<StepOutcome> HostReplica::next_outcome(bool) {
  return std::exchange(outcome_, std::nullopt);
}

void HostReplica::average_buffers() { ops::average_buffers(context_, model_); }

std::size_t HostReplica::count_correct(Batch batch) {
  return ops::count_correct(model_, std::move(batch));
}

}  // namespace horo::ops

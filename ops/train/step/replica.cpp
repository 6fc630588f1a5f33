#include "ops/train/step/replica.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "ops/train/step/model_state.h"

namespace horo::ops {
namespace {

// Gradients on a device are checked in every step, even if no step may be skipped: a fused ReLU can
// turn NaN into zero, so that a finite loss does not prove finite gradients.
ExchangeOptions checking(ExchangeOptions options, const DeviceTraining& training) {
  HORO_CHECK(!training.graph || (training.device != nullptr && options.passes == 1),
             "training with a graph needs a device and one pass per step; turn `graph` off");
  options.check_finite |= training.device != nullptr;
  return options;
}

Layer& shared(Context& context, Layer& model, Optimizer& optimizer) {
  broadcast_state(context, model, optimizer);
  return model;
}

}  // namespace

Replica::Replica(Context& context, Layer& model, Optimizer& optimizer, const Loss& loss,
                 const DeviceTraining& training, const ExchangeOptions& options, EnterPhase enter)
    : context_(context),
      enter_(std::move(enter)),
      step_(context, shared(context, model, optimizer), optimizer, loss, training,
            checking(options, training)) {
  DeviceBackend* const backend = step_.device_backend();
  if (backend == nullptr) return;
  pinned_.emplace(backend->device());
  upload_.emplace(backend->device(), backend->allocator());
  in_flight_.emplace(step_);
  score_ = backend->device().allocate_pinned(sizeof(BatchScore));
  if (training.graph) graphs_.emplace(step_);
}

DataLoaderOptions Replica::for_upload(DataLoaderOptions options) {
  if (pinned_)
    options.allocate_pinned = [this](std::size_t bytes) { return pinned_->allocate(bytes); };
  return options;
}

void Replica::begin_step(std::uint64_t step, std::optional<float> learning_rate,
                         const StepRequests& requests) {
  // The host runs ahead of the device by at most the number of slots. With all slots in use it
  // waits for the oldest step, whose results the new step would overwrite.
  if (in_flight_ && in_flight_->is_full()) outcomes_.push_back(in_flight_->wait_for_oldest());
  if (learning_rate) step_.optimizer().set_learning_rate(*learning_rate);
  if (step_.method() != nullptr) step_.method()->begin_step(step);
  step_.set_step(step, requests);
  is_first_pass_ = true;
}

void Replica::enter(StepPhase phase, Mark mark) {
  enter_(phase);
  if (in_flight_) in_flight_->mark(mark);
}

Batch Replica::in_memory(Batch batch) {
  if (!upload_) return batch;
  return upload_->upload(std::move(batch), step_.device_backend()->stream());
}

void Replica::run_pass(Batch batch, const Pass& pass, double samples) {
  if (upload_) enter_(StepPhase::kTransfer);
  Batch own = in_memory(std::move(batch));
  enter_(StepPhase::kForward);
  if (in_flight_ && std::exchange(is_first_pass_, false)) in_flight_->mark(Mark::kForward);
  is_in_graph_ = graphs_ && graphs_->is_next(samples);
  if (is_in_graph_) {
    graphs_->run(own, pass, samples);
    enter(StepPhase::kBackward, Mark::kBackward);
    return;
  }
  Tensor output = step_.forward(own, pass);
  // In a step with several passes, the mark of the last pass replaces those of the others, so the
  // device times of the others count as forward.
  enter(StepPhase::kBackward, Mark::kBackward);
  step_.backward(std::move(output), own, samples);
}

void Replica::end_step() {
  enter(StepPhase::kExposedCommunication, Mark::kExchange);
  if (!is_in_graph_) step_.exchange();
  enter(StepPhase::kOptimizer, Mark::kUpdate);
  if (!is_in_graph_) step_.update();
  if (in_flight_)
    in_flight_->end_step();
  else if (step_.method() != nullptr)
    std::ranges::move(step_.method()->outcomes(false), std::back_inserter(outcomes_));
  else
    outcomes_.push_back(host_outcome());
}

StepOutcome Replica::host_outcome() {
  const StepReport& report = step_.sync().report();
  const auto& scalars = *static_cast<const StepScalars*>(step_.scalars().data);
  StepOutcome outcome{
      .loss = scalars.loss, .requests = scalars.requests, .was_clipped = report.was_clipped};
  if (step_.options().check_finite && !report.is_finite)
    outcome.why_skipped = report.non_finite ? report.non_finite->describe() : "not finite";
  return outcome;
}

// An outcome is not taken as soon as this device completes the step. All ranks must act on an
// outcome at the same step, whatever the speed of their devices.
std::optional<StepOutcome> Replica::next_outcome(bool wait) {
  const bool is_due =
      in_flight_ && !in_flight_->is_empty() && (wait || in_flight_->is_almost_full());
  if (wait && step_.method() != nullptr)
    std::ranges::move(step_.method()->outcomes(true), std::back_inserter(outcomes_));
  if (outcomes_.empty() && is_due) outcomes_.push_back(in_flight_->wait_for_oldest());
  if (outcomes_.empty()) return std::nullopt;
  StepOutcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

BatchScore Replica::score(Batch batch) {
  Batch own = in_memory(std::move(batch));
  const Tensor output = step_.forward(own, {});
  step_.score(output, own);
  if (!in_flight_) return *step_.batch_score();
  device::Stream& stream = step_.device_backend()->stream();
  stream.copy(score_.data(), step_.batch_score(), sizeof(BatchScore));
  stream.synchronize();
  BatchScore score;
  std::memcpy(&score, score_.data(), sizeof score);
  return score;
}

// The buffers move to other memory. Discarding the graph also frees its activations for score().
void Replica::average_buffers() {
  if (graphs_) graphs_->discard();
  if (step_.method() != nullptr) step_.method()->show_agreed();
  ops::average_buffers(context_, step_.model());
}

void Replica::bring_back() {
  graphs_.reset();
  step_.move_back();
}

CompressionFigures Replica::compression() {
  if (in_flight_) return {};
  if (step_.method() != nullptr) return step_.method()->compression();
  return step_.sync().compression_report().total;
}

}  // namespace horo::ops

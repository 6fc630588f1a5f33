#include "ops/train/device_replica.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "ops/train/model_state.h"

namespace horo::ops {
namespace {

using device_kernels::BatchScore;
using device_kernels::GradientVerdict;

Optimizer& checked(Optimizer& optimizer, Layer& model) {
  HORO_CHECK(
      std::ranges::equal(optimizer.parameters(), model.parameters()),
      "training on a device: the optimizer updates all parameters of the model, in its order");
  return optimizer;
}

// Empty if the step was not skipped.
std::string why_skipped(const GradientVerdict& verdict) {
  if (verdict.skip == 0) return {};
  return std::isfinite(verdict.norm) ? "the loss is not finite" : "the gradients are not finite";
}

// Gradients are checked in every step, even if no step may be skipped: a fused ReLU can turn NaN
// into zero, so that a finite loss does not prove finite gradients.
ExchangeOptions checking(ExchangeOptions options) {
  options.check_finite = true;
  return options;
}

}  // namespace

DeviceReplica::DeviceReplica(Context& context, Layer& model, Optimizer& optimizer,
                             const ExchangeOptions& options, const DeviceTraining& training,
                             EnterPhase enter)
    : context_(context),
      model_(model),
      optimizer_(checked(optimizer, model)),
      options_(checking(options)),
      enter_(std::move(enter)),
      training_(training),
      score_(training.device->allocate_pinned(sizeof(BatchScore))) {
  for (Slot& slot : slots_) {
    slot.words = training.device->allocate_pinned(sizeof(Words));
    for (auto& mark : slot.marks) mark = training.device->make_timed_event();
    slot.told = training.device->make_event();
  }
}

void DeviceReplica::share_state() {
  broadcast_state(context_, model_, optimizer_);
  step_.emplace(context_, model_, optimizer_, training_, options_);
  upload_.emplace(*training_.device, step_->backend().allocator());
}

void DeviceReplica::average_buffers() { ops::average_buffers(context_, model_); }

void DeviceReplica::begin_step(std::uint64_t step, std::optional<float> learning_rate) {
  if (learning_rate) optimizer_.set_learning_rate(*learning_rate);
  step_->set_step(step);
}

// The host runs ahead of the device by at most the number of slots. With all slots in use it waits
// for the oldest step, whose pinned words the new step would overwrite.
void DeviceReplica::run_pass(Batch batch, const Pass& pass, double normaliser) {
  if (steps_ - told_ == slots_.size()) known_.push_back(wait_for_oldest());
  enter_(StepPhase::kForward);
  DeviceBatch on_device = upload_->upload(batch, step_->stream());
  mark(0);
  const Tensor logits = step_->forward(on_device, {.training = true,
                                                   .seed = pass.seed,
                                                   .step = pass.step,
                                                   .samples = {on_device.samples, on_device.rows}});
  mark(1);
  enter_(StepPhase::kBackward);
  step_->backward(logits, on_device, normaliser);
  mark(2);
}

void DeviceReplica::end_step() {
  enter_(StepPhase::kExposedCommunication);
  step_->exchange();
  mark(3);
  enter_(StepPhase::kOptimizer);
  step_->update();
  mark(4);
  std::byte* const words = slot().words.data();
  step_->stream().copy(words + offsetof(Words, loss), step_->loss().data, sizeof(float));
  step_->stream().copy(words + offsetof(Words, verdict), step_->verdict(), sizeof(GradientVerdict));
  // The event follows both copies, so that the host may read the words once the event is complete.
  step_->stream().record(*slot().told);
  ++steps_;
}

std::optional<StepOutcome> DeviceReplica::next_outcome(bool wait) {
  // The outcome is not taken as soon as this device completes the step. All ranks must act on an
  // outcome at the same step, whatever the speed of their devices.
  const bool is_due = steps_ - told_ >= slots_.size() - 1;
  if (known_.empty() && told_ < steps_ && (wait || is_due)) known_.push_back(wait_for_oldest());
  if (known_.empty()) return std::nullopt;
  StepOutcome outcome = std::move(known_.front());
  known_.pop_front();
  return outcome;
}

StepOutcome DeviceReplica::wait_for_oldest() {
  const Slot& slot = slots_[told_++ % slots_.size()];
  slot.told->synchronize();
  // Throws the error of a failed exchange, so that its outcome is never reported.
  step_->sync().check();
  Words words;
  std::memcpy(&words, slot.words.data(), sizeof words);
  return {.loss = words.loss * static_cast<float>(step_->loss().scale),
          .was_clipped = options_.clip_norm && words.verdict.skip == 0 &&
                         words.verdict.norm > *options_.clip_norm,
          .why_skipped = why_skipped(words.verdict),
          .times = times_of(slot)};
}

StepTimes DeviceReplica::times_of(const Slot& slot) {
  const device::Device& device = step_->backend().device();
  constexpr std::array kPhases{StepPhase::kForward, StepPhase::kBackward,
                               StepPhase::kExposedCommunication, StepPhase::kOptimizer};
  StepTimes times;
  for (std::size_t i = 0; i < kPhases.size(); ++i)
    times[kPhases[i]] = device.milliseconds_between(*slot.marks[i], *slot.marks[i + 1]);
  times.total_ms = device.milliseconds_between(*slot.marks.front(), *slot.marks.back());
  return times;
}

std::size_t DeviceReplica::count_correct(Batch batch) {
  DeviceBatch on_device = upload_->upload(batch, step_->stream());
  const Tensor logits = step_->forward(on_device, {});
  step_->score(logits, on_device);
  step_->stream().copy(score_.data(), step_->batch_score(), sizeof(BatchScore));
  step_->stream().synchronize();
  BatchScore result;
  std::memcpy(&result, score_.data(), sizeof result);
  return result.correct;
}

}  // namespace horo::ops

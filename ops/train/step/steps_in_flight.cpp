#include "ops/train/step/steps_in_flight.h"

#include <cmath>
#include <cstring>

namespace horo::ops {
namespace {

using device_kernels::GradientVerdict;
using device_kernels::LossScale;

std::string why_skipped(const GradientVerdict& verdict) {
  if (verdict.skip == 0) return {};
  return std::isfinite(verdict.norm) ? "the loss is not finite" : "the gradients are not finite";
}

}  // namespace

StepsInFlight::StepsInFlight(TrainStep& step)
    : step_(step),
      device_(step.device_backend()->device()),
      stream_(step.device_backend()->stream()) {
  for (Slot& slot : slots_) {
    slot.verdict = device_.allocate_pinned(sizeof(GradientVerdict));
    slot.scalars = device_.allocate_pinned(sizeof(StepScalars));
    if (step.loss_scaling() != nullptr) slot.scale = device_.allocate_pinned(sizeof(LossScale));
    for (auto& mark : slot.marks) mark = device_.make_timed_event();
    slot.copied = device_.make_event();
  }
}

void StepsInFlight::mark(Mark place) {
  Slot& slot = slots_[begun_ % slots_.size()];
  if (place == Mark::kForward) slot.begin = std::chrono::steady_clock::now();
  stream_.record(*slot.marks[static_cast<std::size_t>(place)]);
}

// The event follows the copy, so the host may read the verdict once the event is complete.
void StepsInFlight::end_step() {
  mark(Mark::kEnd);
  Slot& slot = slots_[begun_ % slots_.size()];
  const std::chrono::duration<double, std::milli> submission =
      std::chrono::steady_clock::now() - slot.begin;
  const auto& backward = slot.marks[static_cast<std::size_t>(Mark::kBackward)];
  slot.launch = {submission.count(), backward->is_done()};
  stream_.copy(slot.verdict.data(), step_.verdict(), sizeof(GradientVerdict));
  stream_.copy(slot.scalars.data(), step_.scalars().data, sizeof(StepScalars));
  if (LossScaling* const scaling = step_.loss_scaling())
    stream_.copy(slot.scale.data(), scaling->on_device(), sizeof(LossScale));
  stream_.record(*slot.copied);
  ++begun_;
}

StepOutcome StepsInFlight::wait_for_oldest() {
  const Slot& slot = slots_[returned_++ % slots_.size()];
  slot.copied->synchronize();
  // Throws the error of a failed exchange, so that its outcome is never reported.
  step_.sync().check();
  GradientVerdict verdict;
  std::memcpy(&verdict, slot.verdict.data(), sizeof verdict);
  StepScalars scalars;
  std::memcpy(&scalars, slot.scalars.data(), sizeof scalars);
  LossScale scale{.scale = 0};
  if (step_.loss_scaling() != nullptr) std::memcpy(&scale, slot.scale.data(), sizeof scale);
  const std::optional<double> limit = step_.options().clip_norm;
  return {.loss = scalars.loss * static_cast<float>(step_.scalars().scale),
          .requests = scalars.requests,
          .was_clipped = limit && verdict.skip == 0 && verdict.norm > *limit,
          .why_skipped = why_skipped(verdict),
          .loss_scale = scale.scale,
          .times = times_of(slot),
          .launch = slot.launch};
}

StepTimes StepsInFlight::times_of(const Slot& slot) const {
  constexpr std::array kPhases{StepPhase::kForward, StepPhase::kBackward,
                               StepPhase::kExposedCommunication, StepPhase::kOptimizer};
  StepTimes times;
  for (std::size_t i = 0; i < kPhases.size(); ++i)
    times[kPhases[i]] = device_.milliseconds_between(*slot.marks[i], *slot.marks[i + 1]);
  times.total_ms = device_.milliseconds_between(*slot.marks.front(), *slot.marks.back());
  return times;
}

}  // namespace horo::ops

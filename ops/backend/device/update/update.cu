#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/backend/device/update/update.h"
#include "ops/backend/device/update/update_kernel.h"
#include "ops/optim/update_rules.h"

namespace horo::ops::device_kernels {
namespace {

/// The rule of AdamW with the step number of a clock.
struct ClockedAdamWRule {
  static constexpr int kStates = AdamWRule::kStates;
  AdamWRule rule;
  const AdamWClock* clock;

  HORO_KERNEL AdamWRule current(std::uint32_t) const {
    AdamWRule now = rule;
    now.correction1 = clock->correction1;
    now.correction2 = clock->correction2;
    return now;
  }
};

/// Counts a step in one thread.
struct CountStep {
  AdamWClock* clock;
  float beta1, beta2;
  const std::uint32_t* skip;

  HORO_KERNEL void operator()(const device::ThreadIndex&) const {
    if (skip != nullptr && *skip != 0) return;
    const std::int64_t step = clock->steps + 1;
    *clock = {step, bias_correction(beta1, step), bias_correction(beta2, step)};
  }
};

template <Momentum kMomentum>
void update_with(device::Stream& stream, std::span<const SgdTensor> tensors,
                 const UpdateTypes& types, const SgdOptions& options, const GradientUse& use) {
  using Rule = SgdRule<kMomentum>;
  std::vector<UpdateEntry<Rule::kStates>> entries;
  entries.reserve(tensors.size());
  for (const SgdTensor& tensor : tensors)
    entries.push_back(
        {tensor.value, {tensor.momentum}, tensor.gradient, tensor.copy, tensor.count});
  update(stream, entries, types,
         Rule{options.learning_rate, options.momentum, options.weight_decay}, use);
}

std::vector<UpdateEntry<2>> entries_of(std::span<const AdamWTensor> tensors) {
  std::vector<UpdateEntry<2>> entries;
  entries.reserve(tensors.size());
  for (const AdamWTensor& tensor : tensors)
    entries.push_back({tensor.value,
                       {tensor.first_moment, tensor.second_moment},
                       tensor.gradient,
                       tensor.copy,
                       tensor.count});
  return entries;
}

}  // namespace

void update_sgd(device::Stream& stream, std::span<const SgdTensor> tensors,
                const UpdateTypes& types, const SgdOptions& options, const GradientUse& use) {
  if (options.momentum == 0)
    return update_with<Momentum::kNone>(stream, tensors, types, options, use);
  if (options.nesterov)
    return update_with<Momentum::kNesterov>(stream, tensors, types, options, use);
  update_with<Momentum::kPlain>(stream, tensors, types, options, use);
}

void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, std::int64_t step,
                  const GradientUse& use) {
  update(stream, entries_of(tensors), types, rule_of(options, step), use);
}

void count_step(device::Stream& stream, const AdamWOptions& options, AdamWClock* clock,
                const std::uint32_t* skip) {
  const AdamWRule rule = rule_of(options, 1);
  device::launch(stream, {1, 1}, CountStep{clock, rule.beta1, rule.beta2, skip});
}

void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, const AdamWClock* clock,
                  const GradientUse& use) {
  update(stream, entries_of(tensors), types, ClockedAdamWRule{rule_of(options, 1), clock}, use);
}

}  // namespace horo::ops::device_kernels

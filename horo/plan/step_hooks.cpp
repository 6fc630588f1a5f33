#include "horo/plan/step_hooks.h"

#include <utility>

namespace horo::plan {

StepHooks::StepHooks(std::span<const NamedTensor> gradients, const BucketPlan& plan,
                     const GradientSyncOptions& options, const Topology& topology,
                     std::unique_ptr<PlanTuning> plan_tuning)
    : tuning(std::move(plan_tuning)),
      compression(
          std::make_unique<CompressedPlan>(gradients, plan, options.compression, topology)) {
  if (options.reorder) order = std::make_unique<MarkOrder>(gradients.size());
  if (options.find_unused) unused = std::make_unique<UnusedGradients>(gradients.size());
  if (options.check_finite || options.clip_norm)
    norms = std::make_unique<GradientNorms>(
        gradients, NormOptions{options.check_finite, options.clip_norm}, topology);
  if (options.weighted) weights = std::make_unique<StepWeights>(topology);
}

// `order` precedes `tuning`, so that after the second step, `order` makes the new buckets before
// `tuning` starts the clock of its search.
std::vector<StepHook*> StepHooks::in_order() const {
  StepHook* const search = tuning->is_searching() ? tuning.get() : nullptr;
  std::vector<StepHook*> hooks;
  for (StepHook* hook : std::initializer_list<StepHook*>{order.get(), search, unused.get(),
                                                         norms.get(), weights.get()})
    if (hook != nullptr) hooks.push_back(hook);
  return hooks;
}

}  // namespace horo::plan

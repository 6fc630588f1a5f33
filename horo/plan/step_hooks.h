#pragma once

#include <memory>
#include <span>
#include <vector>

#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/plan/compressed_plan.h"
#include "horo/plan/gradients/gradient_marks.h"
#include "horo/plan/gradients/gradient_norms.h"
#include "horo/plan/step_hook.h"
#include "horo/plan/step_weights.h"
#include "horo/plan/tuning/plan_tuning.h"

namespace horo::plan {

/// The hooks of one plan, and its compression. Hooks other than `tuning` are null if the options do
/// not request them.
struct StepHooks {
  /// The caller must have called tuning->begin(). `topology` must outlive the hooks.
  StepHooks(std::span<const NamedTensor> gradients, const BucketPlan& plan,
            const GradientSyncOptions& options, const Topology& topology,
            std::unique_ptr<PlanTuning> tuning);

  /// Returns the hooks in the order in which BucketScheduler calls them. Omits `tuning` if it does
  /// not search. `norms` precedes `weights`, because it must check the gradients for non-finite
  /// values before `weights` scales them. The order must be the same on all ranks, because
  /// begin_exchange() and end_exchange() are collective.
  std::vector<StepHook*> in_order() const;

  std::unique_ptr<MarkOrder> order;             ///< with options.reorder
  std::unique_ptr<PlanTuning> tuning;           ///< never null
  std::unique_ptr<UnusedGradients> unused;      ///< with options.find_unused
  std::unique_ptr<GradientNorms> norms;         ///< with options.clip_norm or check_finite
  std::unique_ptr<StepWeights> weights;         ///< with options.weighted
  std::unique_ptr<CompressedPlan> compression;  ///< never null; not a hook
};

}  // namespace horo::plan

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/plan/compressed_plan.h"
#include "horo/plan/gradient_marks.h"
#include "horo/plan/gradient_norms.h"
#include "horo/plan/step_hook.h"
#include "horo/plan/step_weights.h"
#include "horo/plan/tuning/plan_tuning.h"

namespace horo::coordinator {

/// The hooks of one plan. A hook is null if the options do not ask for it.
struct StepHooks {
  /// `tuning` has begun. `topology` outlives the hooks.
  StepHooks(std::span<const NamedTensor> gradients, const BucketPlan& plan,
            const GradientSyncOptions& options, const Topology& topology,
            std::unique_ptr<tuning::PlanTuning> tuning);

  /// The order in which the plan calls them. It matters in three places: norms look for non-finite
  /// values before weights scale the gradients, compression counts a step after all other hooks
  /// have completed it, and the messages of begin_exchange() and end_exchange() are sent in it.
  std::vector<StepHook*> in_order() const;

  std::unique_ptr<MarkOrder> order;             ///< options.reorder
  std::unique_ptr<tuning::PlanTuning> tuning;   ///< never null
  std::unique_ptr<UnusedGradients> unused;      ///< options.find_unused
  std::unique_ptr<GradientNorms> norms;         ///< options.clip_norm or check_finite
  std::unique_ptr<StepWeights> weights;         ///< options.weighted
  std::unique_ptr<CompressedPlan> compression;  ///< never null; also reduces the buckets it covers
};

}  // namespace horo::coordinator

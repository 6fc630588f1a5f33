#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/step_report.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/gradient_norms.h"
#include "horo/coordinator/step_settings.h"
#include "horo/coordinator/step_weights.h"

namespace horo::coordinator {

/// What is done with the gradients of a plan around the exchange of its buckets: weights before,
/// norm and clipping after, and who has not used what. A plan that asks for none of it has none.
/// Used by one thread at a time; begin(), before() and after() by whichever runs the bucket.
class StepTreatment {
 public:
  StepTreatment(std::span<const NamedTensor> gradients, StepSettings settings,
                const Topology& topology);

  // Between steps, from the thread that waits.
  StepWeights& weights() { return weights_; }
  const StepWeights& weights() const { return weights_; }
  /// This rank has nothing to say about a gradient in this step.
  void note_unused(std::size_t gradient) { is_unused_[gradient] = 1; }

  /// Before the first bucket. Collective if the plan is weighted.
  void begin(collectives::Collectives& collectives);
  /// Whether no rank has data: the buckets are not exchanged.
  bool is_skipped() const { return weights_.total() == 0; }
  /// Prepares the gradients of a bucket; returns what to reduce them with in place of `op`.
  ReduceOp before(const std::vector<std::size_t>& members, ReduceOp op, bool is_compressed);
  /// The gradients of a bucket have been reduced.
  void after(const std::vector<std::size_t>& members);
  /// After the last bucket: clips, and fills `report`. Collective.
  void end(collectives::Collectives& collectives, StepReport& report);

 private:
  void look_for_source(const std::vector<std::size_t>& members);
  void set_zero(std::size_t gradient) const;
  void find_unused(collectives::Collectives& collectives, StepReport& report);
  void judge(collectives::Collectives& collectives, StepReport& report);

  std::vector<NamedTensor> gradients_;
  StepSettings settings_;
  StepWeights weights_;
  GradientNorms norms_;
  std::vector<std::uint8_t> is_unused_;
};

}  // namespace horo::coordinator

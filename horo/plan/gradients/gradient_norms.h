#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/plan/gradients/gradient_memory.h"
#include "horo/plan/step_hook.h"

namespace horo::plan {

/// See GradientSyncOptions.
struct NormOptions {
  bool check_finite = false;
  std::optional<double> clip_norm;
};

/// Computes the norm of the reduced gradients of a step, clips the gradients, and reports
/// non-finite values.
///
/// All ranks have the same reduced values and add their squares in the same order, so all ranks
/// compute the same norm without a message. Exception: with HORO_ALGORITHM=mpi, MPI does not
/// guarantee the same values on all ranks. The squares are summed per gradient, so the norm of
/// given values does not depend on the buckets.
///
/// Costs one pass over each bucket after the exchange. With check_finite, also costs one pass
/// before the exchange. Clipping costs one more pass over the gradients. Sends messages only with
/// check_finite, in a step with a non-finite value.
class GradientNorms : public StepHook {
 public:
  /// `topology` must outlive this object.
  GradientNorms(std::span<const NamedTensor> gradients, const NormOptions& options,
                const Topology& topology);

  void begin_exchange(StepExchange& step) override { step.memory->begin_step(); }
  void before_bucket(const StepExchange& step, BucketExchange& bucket) override;
  void after_bucket(const StepExchange& step, const BucketExchange& bucket) override;
  void end_exchange(StepExchange& step) override { step.memory->clip(options_.clip_norm); }
  void complete(StepExchange& step) override;

 private:
  StepReport::NonFinite find_source(const GradientMemory::Findings& findings,
                                    collectives::Collectives& collectives) const;

  std::vector<std::string> names_;
  const NormOptions options_;
  const Topology& topology_;
};

}  // namespace horo::plan

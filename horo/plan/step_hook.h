#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/reduce_op.h"
#include "horo/base/step_report.h"
#include "horo/plan/bucket_plan.h"

namespace horo::plan {

class BucketScheduler;

/// Adds a collective of the plan, with its numbers of bytes and tensors, to the counters of the
/// job.
using CountCollective = std::function<void(std::size_t bytes, std::size_t tensors)>;

/// The exchange of one step of a plan.
struct StepExchange {
  collectives::Collectives& collectives;  ///< the collectives of the plan
  const CountCollective& count;
  StepReport& report;    ///< the result of the step so far
  bool has_data = true;  ///< false if this rank's share of the weights is 0

  /// Whether no rank has data. The buckets of such a step are not exchanged.
  bool is_skipped() const { return report.total_weight == 0; }
};

/// The exchange of one bucket.
struct BucketExchange {
  const std::vector<std::size_t>& gradients;  ///< indices, in the order of the bucket
  bool is_compressed;
  ReduceOp op;  ///< before_bucket() may replace it
};

/// Work that a step does besides the exchange of its buckets. A plan has an ordered list of hooks
/// (StepHooks) and calls each function for all hooks in that order. Either the plan's own thread or
/// the thread that ends the step calls the hooks, never both at the same time.
///
/// All ranks have the same hooks in the same order, so the collectives of the hooks match. An
/// exception fails the step.
class StepHook {
 public:
  virtual ~StepHook() = default;

  /// Runs before the first bucket. Collective. The ranks are about to wait for each other in the
  /// first bucket, so a hook can agree here on values of the previous step without a further wait.
  virtual void begin_exchange(StepExchange& /*step*/) {}
  /// Prepares the gradients of a bucket. Not called if the step is skipped.
  virtual void before_bucket(const StepExchange& /*step*/, BucketExchange& /*bucket*/) {}
  /// Processes the reduced gradients of a bucket. Not called if the step is skipped.
  virtual void after_bucket(const BucketExchange& /*bucket*/) {}
  /// Runs after the last bucket, on the thread that ends the step. Collective.
  virtual void end_exchange(StepExchange& /*step*/) {}
  /// Runs when the step is complete and nothing is in flight. Not collective. The hook may change
  /// the plan for the next step. All ranks must make the same change.
  virtual void end_step(BucketScheduler& /*scheduler*/, const StepReport& /*report*/) {}
};

}  // namespace horo::plan

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/reduce_op.h"
#include "horo/base/step_report.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/gradients/gradient_memory.h"

namespace horo::plan {

class BucketScheduler;

/// Adds a collective of the plan, with its numbers of bytes and tensors, to the counters of this
/// rank's Context.
using CountCollective = std::function<void(std::size_t bytes, std::size_t tensors)>;

/// The exchange of one step of a plan.
struct StepExchange {
  collectives::Collectives& collectives;  ///< of the plan in this step; for values in host memory
  GradientMemory* memory;                 ///< null if no option of the plan requires it
  const CountCollective& count;
  StepReport& report;    ///< the result of the step so far
  bool has_data = true;  ///< false if this rank contributes no values; see StepWeights

  /// Whether the weights of all ranks are 0. The buckets of such a step are not exchanged. Valid
  /// after begin_exchange() of all hooks.
  bool is_skipped() const { return report.total_weight == 0; }
};

/// The exchange of one bucket.
struct BucketExchange {
  const std::vector<std::size_t>& gradients;  ///< indices, in the order of the bucket
  bool is_compressed;
  // before_bucket() may change the members below.
  ReduceOp op;
  double factor = 1;     ///< by which this rank multiplies its values before the reduction
  bool has_data = true;  ///< if false, this rank contributes zeros in place of its values
};

/// Work that a step does besides the exchange of its buckets. A plan has an ordered list of hooks
/// (StepHooks). BucketScheduler calls each of the functions below for all hooks in that order. The
/// calls come from the plan's own thread or from the thread that ends the step, and never from both
/// threads at the same time.
///
/// All ranks have the same hooks in the same order, so the collectives of the hooks match.
/// With device memory, a step is complete on the host before the device has run it. Therefore, only
/// complete() may read results of the device.
///
/// BucketScheduler rethrows exceptions of all functions where the step ends. After an exception of
/// a function other than end_step(), the plan exchanges nothing until BucketScheduler::replace().
class StepHook {
 public:
  virtual ~StepHook() = default;

  /// Called before the exchange of the first bucket. Collective. A hook that needs a value of all
  /// ranks at the end of a step can exchange the value here, in the next step. The end of a step
  /// then does not wait for other ranks.
  virtual void begin_exchange(StepExchange& /*step*/) {}
  /// Called before the exchange of each bucket. Not called if the step is skipped.
  virtual void before_bucket(const StepExchange& /*step*/, BucketExchange& /*bucket*/) {}
  /// Called after the exchange of each bucket. Not called if the step is skipped.
  virtual void after_bucket(const StepExchange& /*step*/, const BucketExchange& /*bucket*/) {}
  /// Called after the last bucket, on the thread that ends the step. Collective. Also called if the
  /// step is skipped.
  virtual void end_exchange(StepExchange& /*step*/) {}
  /// Called when the device has run the step, on the thread that reads the report of the step. With
  /// device memory, not called if no thread reads the report. Collective.
  virtual void complete(StepExchange& /*step*/) {}
  /// Called when the step has ended, on the thread that ends the step. Not collective. The hook may
  /// change the plan for the next step. All ranks must make the same change.
  virtual void end_step(BucketScheduler& /*scheduler*/, const StepReport& /*report*/) {}
};

}  // namespace horo::plan

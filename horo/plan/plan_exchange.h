#pragma once

#include <cstddef>
#include <optional>

#include "collectives/collectives.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/gradients/gradient_memory.h"
#include "horo/plan/step_hook.h"

namespace horo::plan {

class DevicePlanExchange;

/// Exchanges the buckets of a plan whose gradients are in one kind of memory. BucketScheduler
/// decides when a bucket is exchanged, and calls the functions in this order, with the same buckets
/// in the same order on every rank:
///
///     mark()                                 in each pass, for each gradient
///     prepare(b), exchange(b) or skip(b)     for each bucket b of the plan, in order
///     end_step()                             once per step
///
/// Several threads may call mark() at the same time. All other functions are called by one thread
/// at a time.
class PlanExchange {
 public:
  virtual ~PlanExchange() = default;

  /// Returns this object if the gradients are in device memory. Otherwise returns null; exchange()
  /// then returns when the bucket is reduced.
  virtual DevicePlanExchange* on_device() { return nullptr; }
  /// Returns `plan` with buckets that this exchange supports. The result is the same on all ranks.
  virtual BucketPlan fit(BucketPlan plan) const { return plan; }
  /// Makes the buckets of `plan`, a result of fit(). Collective over `control`. No bucket may be in
  /// flight.
  virtual void use_plan(const BucketPlan& plan, collectives::Collectives& control) = 0;

  /// Null if no option of the plan requires it.
  virtual GradientMemory* memory() = 0;
  /// Whether the hooks must treat the bucket as compressed; see StepHook.
  virtual bool is_compressed(std::size_t /*bucket*/) const { return false; }
  /// Whether the bucket is reduced in shared memory in which its gradients lie.
  virtual bool is_mapped(std::size_t /*bucket*/) const { return false; }

  /// The exchange of the bucket of `gradient` must start after the work that is on `stream` now.
  virtual void mark(std::size_t /*gradient*/, void* /*stream*/) {}
  /// Sets a gradient to zero that is not marked in the step, and marks it. In device memory, the
  /// work follows the work that is on `stream` now. Without a stream, it follows all marks of the
  /// step.
  virtual void set_zero(std::size_t gradient, std::optional<void*> stream) = 0;
  /// Called before before_bucket() of the hooks. All gradients of the bucket are marked.
  virtual void prepare(std::size_t /*bucket*/) {}
  /// Reduces the bucket. The result is available to after_bucket() of the hooks.
  virtual void exchange(std::size_t bucket, const BucketExchange& how) = 0;
  /// Called in place of exchange() in a step that is skipped.
  virtual void skip(std::size_t /*bucket*/) {}
  /// Ends a step, after end_exchange() of the hooks.
  virtual void end_step() {}
};

}  // namespace horo::plan

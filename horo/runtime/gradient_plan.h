#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/tensor_view.h"
#include "horo/plan/bucket_scheduler.h"
#include "horo/plan/tuning/plan_tuning.h"
#include "horo/runtime/runtime.h"

namespace horo {

/// Runs `check`, which throws InvalidArgument if the arguments of this rank are wrong. If `check`
/// returns, the caller must submit the task `operation`, which must begin with
/// collectives::require_no_problem(). If `check` throws, this function submits the task
/// `operation`, which then only calls require_no_problem(). If `check` throws on any rank, every
/// rank thus throws InvalidArgument with the text and the name of the lowest such rank. With one
/// rank, the error of `check` is rethrown unchanged.
void check_together(Runtime& runtime, const std::string& operation,
                    const std::function<void()>& check);

/// Makes the first plan of a GradientSync and its replacements. `runtime` must outlive this object.
class GradientPlan {
 public:
  GradientPlan(Runtime& runtime, std::string name, const GradientSyncOptions& options);
  ~GradientPlan();
  GradientPlan(const GradientPlan&) = delete;
  GradientPlan& operator=(const GradientPlan&) = delete;

  /// The name of the plan and its replacements. Before the first agreement, this is the name that
  /// the constructor received. If other plans of that name exist at the first agreement, a number
  /// is appended, as in "net#2".
  const std::string& name() const { return name_; }
  const GradientSyncOptions& options() const { return options_; }

  /// Agrees with all ranks on `gradients` in the named operation `operation`, and makes the objects
  /// that exchange them. Collective. Throws as the constructor of GradientSync does. `found`: see
  /// plan::PlanTuning. `look`: see coordinator::PlanWaits. If `channel` is not null, sets
  /// `*channel` to a new channel.
  plan::BucketScheduler::Parts agree(const std::string& operation,
                                     std::span<const NamedTensor> gradients, std::string found,
                                     std::function<void()> look,
                                     std::unique_ptr<collectives::MessageChannel>* channel);

 private:
  std::unique_ptr<plan::DevicePlanExchange> device_exchange(std::span<const NamedTensor> gradients,
                                                            std::vector<bool> is_metric,
                                                            const plan::PlanChoice& choice,
                                                            std::function<void()> look) const;
  std::unique_ptr<collectives::Communicator> communicator(const plan::PlanChoice& choice,
                                                          coordinator::PlanWaits& waits) const;

  Runtime& runtime_;
  const std::string given_name_;
  std::string name_;
  int number_ = 0;  // among the plans of this name; 0 before the first agreement
  GradientSyncOptions options_;
};

}  // namespace horo

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "collectives/message_channel.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/bucket_runner.h"
#include "horo/gradient_sync_options.h"
#include "horo/runtime.h"
#include "horo/tuning/plan_tuning.h"

namespace horo {

/// Makes the plans of one GradientSync, the first and those that replace it. `runtime` outlives
/// it.
class GradientPlan {
 public:
  GradientPlan(Runtime& runtime, std::string name, const GradientSyncOptions& options);
  ~GradientPlan();
  GradientPlan(const GradientPlan&) = delete;
  GradientPlan& operator=(const GradientPlan&) = delete;

  /// As given; once the ranks have agreed on the first plan, told apart from those of others that
  /// live at the same time.
  const std::string& name() const { return name_; }
  const GradientSyncOptions& options() const { return options_; }
  coordinator::StepSettings step_settings() const;

  /// Agrees with all ranks on `gradients` in a named operation called `operation`, so that a rank
  /// that is missing is named; throws as the constructor of GradientSync does. `look`: see
  /// coordinator::PlanWaits. If `channel` is not null it is set to a new one.
  /// `tuning` begins, and its choice is followed.
  coordinator::BucketRunner::Parts agree(const std::string& operation,
                                         std::span<const NamedTensor> gradients,
                                         tuning::PlanTuning& tuning, std::function<void()> look,
                                         std::unique_ptr<collectives::MessageChannel>* channel);

  /// Of a plan of `gradients`; `found`: see tuning::PlanTuning.
  std::unique_ptr<tuning::PlanTuning> make_tuning(std::span<const NamedTensor> gradients,
                                                  std::string found = {}) const;
  coordinator::BucketPlan pack(std::span<const NamedTensor> gradients,
                               std::span<const std::size_t> order, std::size_t bucket_bytes) const;

 private:
  std::unique_ptr<collectives::Communicator> communicator(const tuning::PlanChoice& choice,
                                                          coordinator::PlanWaits& waits) const;

  Runtime& runtime_;
  const std::string given_name_;
  std::string name_;
  int number_ = 0;  // among the plans called so; 0: not yet agreed on
  GradientSyncOptions options_;
};

}  // namespace horo

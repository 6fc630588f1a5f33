#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/coordinator/bucket_runner.h"
#include "horo/coordinator/mark_order.h"
#include "horo/coordinator/plan_meeting.h"
#include "horo/gradient_plan.h"
#include "horo/gradient_sync.h"
#include "horo/runtime.h"

namespace horo {

/// What lies behind a GradientSync: its functions are those of the same names, with their rules.
class GradientSync::Impl {
 public:
  Impl(Context& context, std::span<const NamedTensor> gradients,
       const GradientSyncOptions& options);
  ~Impl();

  /// Throws where the runtime cannot be used any more.
  void require_usable() const { runtime_->require_usable(); }
  /// The same before what waits for other ranks.
  void require_may_wait() const {
    coordinator::forbid_blocking_in_callbacks();
    require_usable();
  }
  coordinator::BucketRunner& runner() { return *runner_; }
  bool is_tuning() const { return tuning_->is_searching(); }
  const std::string& name_of(std::size_t index) const { return gradients_[index].name; }
  const std::vector<std::size_t>& unused() const { return unused_; }

  void ready(std::size_t index);
  void ready(std::size_t index, const ConstTensorView& gradient);
  const StepReport& wait();
  const StepReport& exchange();
  void begin_no_sync();
  void end_no_sync();
  void set_weight(double weight);
  int join(const std::function<void(const StepReport&)>& after_step);
  void update(std::span<const NamedTensor> gradients);
  std::vector<std::vector<std::size_t>> gather_unused();
  std::vector<std::byte> save_compression_state();
  void load_compression_state(std::span<const std::byte> state);

 private:
  void require_registered(std::size_t index) const;
  bool has_peers() const { return runtime_->topology().size > 1; }

  std::string update_name() const { return plan_.name() + ".update"; }
  void meet_to_update();
  std::function<void()> look();
  void begin_plan(std::span<const NamedTensor> gradients);
  void hold_if_needed();
  const StepReport& end_pass();

  // Gradients that earlier passes have marked take part; the others are unused, or forgotten.
  void settle_unmarked();
  void set_unused(std::size_t gradient);

  // Of a rank that ends a step early. Its weight is 0 if it has marked nothing.
  const StepReport& exchange_what_is_there();
  const StepReport& exchange_step();
  // Says more than the collective that a rank is gone from.
  void await_exchange();
  // In the exchange of a step, by the thread that runs it: what ranks tell each other about the
  // step before.
  void meet(collectives::Collectives& collectives);
  void set_prelude();
  void reorder();
  // Notes the steps that have ended, and changes to what the next one is to be tried with.
  void tune();
  void repack(std::span<const std::size_t> order);
  void require_weights(std::string_view what) const;
  void require_none_marked(std::string_view what) const;
  [[noreturn]] void refuse(const std::vector<std::size_t>& missing) const;

  std::shared_ptr<Runtime> runtime_;
  GradientPlan plan_;
  std::vector<NamedTensor> gradients_;
  std::unique_ptr<tuning::PlanTuning> tuning_;
  std::unique_ptr<coordinator::PlanMeeting> meeting_;
  std::unique_ptr<coordinator::MarkOrder> order_;  // null: nobody asks
  std::unique_ptr<coordinator::MarkOrder> noted_;  // of the step before, to be agreed on
  std::vector<std::size_t> packing_;               // as agreed on
  // Its thread uses the above.
  std::unique_ptr<coordinator::BucketRunner> runner_;
  std::size_t pass_ = 0;
  std::size_t no_sync_depth_ = 0;
  std::vector<std::size_t> unused_;
  StepReport plain_;          // of a plan that only exchanges
  const StepReport of_pass_;  // of a pass that exchanges nothing
};

}  // namespace horo

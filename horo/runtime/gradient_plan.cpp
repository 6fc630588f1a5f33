#include "horo/runtime/gradient_plan.h"

#include "collectives/agreement.h"
#include "horo/base/error.h"
#include "horo/plan/gradient_checks.h"
#include "horo/plan/mapped_gradients.h"
#include "horo/plan/plan_agreement.h"

namespace horo {

// A rank whose arguments are wrong must still take part in the named operation. Otherwise the other
// ranks would wait for this rank, and report a missing rank instead of the error.
void check_together(Runtime& runtime, const std::string& operation,
                    const std::function<void()>& check) {
  try {
    return check();
  } catch (const InvalidArgument& error) {
    if (runtime.topology().size == 1) throw;
    coordinator::Entry entry;
    entry.request.kind = coordinator::Kind::kTask;
    entry.request.name = operation;
    entry.task = [&](collectives::Collectives& collectives) {
      collectives::require_no_problem(error.what(), collectives, runtime.topology());
    };
    runtime.run_task(std::move(entry));
  }
}

GradientPlan::GradientPlan(Runtime& runtime, std::string name, const GradientSyncOptions& options)
    : runtime_(runtime), given_name_(std::move(name)), name_(given_name_), options_(options) {
  options_.autotune = options.autotune.value_or(runtime.settings().autotune);
}

GradientPlan::~GradientPlan() {
  // A child process of fork() must not call release(), because the mutex stays locked there if
  // another thread held it at the fork.
  if (number_ != 0 && !runtime_.home().is_elsewhere())
    runtime_.plan_names().release(given_name_, number_);
}

// Each plan has its own communicator, so the exchanges of a plan do not depend on the order of
// named operations.
std::unique_ptr<collectives::Communicator> GradientPlan::communicator(
    const plan::PlanChoice& choice, coordinator::PlanWaits& waits) const {
  Settings settings = runtime_.settings();
  settings.algorithm = choice.algorithm;
  settings.ring_segment_bytes = choice.ring_segment_bytes;
  return std::make_unique<collectives::Communicator>(runtime_.transport(), settings,
                                                     runtime_.allreduce(), waits.in_node,
                                                     waits.between_nodes, choice.wire);
}

// The task is a named operation. On each rank, the owner of the coordinator's rounds runs the task,
// at the same position in the sequence of collectives. So the collectives of the task match even if
// several threads make plans. The task may refer to this stack frame, because run_task() waits for
// the task.
//
// The order in the task matters. agree_on_plan() precedes the other steps, because they require
// equal arguments on all ranks. The first plan gets the numbered name, and its replacements keep
// it. The communicators are made after tuning->begin(), because they use tuning->choice(). The code
// after the task is not collective.
plan::BucketScheduler::Parts GradientPlan::agree(
    const std::string& operation, std::span<const NamedTensor> gradients, std::string found,
    std::function<void()> look, std::unique_ptr<collectives::MessageChannel>* channel) {
  const Topology& topology = runtime_.topology();
  auto tuning = std::make_unique<plan::PlanTuning>(given_name_, gradients, options_,
                                                   runtime_.settings(), topology, std::move(found));
  auto waits =
      std::make_unique<coordinator::PlanWaits>(runtime_.transport().wait_policy(), std::move(look));
  std::unique_ptr<collectives::Communicator> current, spare;
  plan::MappedGradients mapped;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = operation;
  entry.task = [&](collectives::Collectives& collectives) {
    collectives::require_no_problem({}, collectives, topology);
    plan::agree_on_plan(
        name_,
        plan::describe_plan(gradients, options_.op, tuning->choice().bucket_bytes, options_.wire,
                            options_.compression, describe_step_options(options_, nullptr)),
        collectives, topology);
    if (number_ == 0) {
      number_ = runtime_.plan_names().agree(given_name_, collectives);
      name_ = plan::numbered_name(given_name_, number_);
    }
    tuning->begin(collectives);
    current = communicator(tuning->choice(), *waits);
    if (const auto other = tuning->other_way()) spare = communicator(*other, *waits);
    if (current->collectives().uses_mapped_buffers() && is_elementwise(options_.op))
      mapped = plan::find_mapped_gradients(gradients, runtime_.arenas(), collectives, topology);
    if (channel != nullptr) *channel = runtime_.transport().make_message_channel();
  };
  runtime_.run_task(std::move(entry));

  plan::BucketPlan plan = plan::make_bucket_plan(
      gradients, {tuning->choice().bucket_bytes, options_.first_bucket_bytes});
  plan::StepHooks hooks(gradients, plan, options_, topology, std::move(tuning));
  return {.gradients = {gradients.begin(), gradients.end()},
          .mapped = std::move(mapped),
          .plan = std::move(plan),
          .hooks = std::move(hooks),
          .communicators = std::make_unique<plan::PlanCommunicators>(
              std::move(waits), std::move(current), std::move(spare))};
}

}  // namespace horo

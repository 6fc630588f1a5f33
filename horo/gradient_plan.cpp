#include "horo/gradient_plan.h"

#include "horo/base/error.h"
#include "horo/coordinator/mapped_gradients.h"
#include "horo/coordinator/plan_agreement.h"
#include "horo/gradient_checks.h"

namespace horo {

GradientPlan::GradientPlan(Runtime& runtime, std::string name, const GradientSyncOptions& options)
    : runtime_(runtime), given_name_(std::move(name)), name_(given_name_), options_(options) {
  options_.autotune = options.autotune.value_or(runtime.settings().autotune);
}

GradientPlan::~GradientPlan() {
  // A lock may be held for ever in a child process of fork().
  if (number_ != 0 && !runtime_.home().is_elsewhere())
    runtime_.plan_names().release(given_name_, number_);
}

coordinator::StepSettings GradientPlan::step_settings() const {
  return {.is_weighted = options_.weighted,
          .finds_unused = options_.find_unused,
          .checks_finite = options_.check_finite,
          .clip_norm = options_.clip_norm,
          .metrics = options_.metrics};
}

std::unique_ptr<tuning::PlanTuning> GradientPlan::make_tuning(
    std::span<const NamedTensor> gradients, std::string found) const {
  return std::make_unique<tuning::PlanTuning>(given_name_, gradients, options_, runtime_.settings(),
                                              runtime_.topology(), std::move(found));
}

coordinator::BucketPlan GradientPlan::pack(std::span<const NamedTensor> gradients,
                                           std::span<const std::size_t> order,
                                           std::size_t bucket_bytes) const {
  return coordinator::make_bucket_plan(gradients, order, bucket_bytes, options_.first_bucket_bytes);
}

std::unique_ptr<collectives::Communicator> GradientPlan::communicator(
    const tuning::PlanChoice& choice, coordinator::PlanWaits& waits) const {
  Settings settings = runtime_.settings();
  settings.algorithm = choice.algorithm;
  settings.ring_segment_bytes = choice.ring_segment_bytes;
  return std::make_unique<collectives::Communicator>(runtime_.transport(), settings,
                                                     runtime_.allreduce(), waits.in_node,
                                                     waits.between_nodes, choice.wire);
}

coordinator::BucketRunner::Parts GradientPlan::agree(
    const std::string& operation, std::span<const NamedTensor> gradients,
    tuning::PlanTuning& tuning, std::function<void()> look,
    std::unique_ptr<collectives::MessageChannel>* channel) {
  const Topology& topology = runtime_.topology();
  auto waits =
      std::make_unique<coordinator::PlanWaits>(runtime_.transport().wait_policy(), std::move(look));
  std::unique_ptr<collectives::Communicator> made, spare;
  coordinator::MappedGradients mapped;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = operation;
  entry.task = [&](collectives::Collectives& collectives) {
    coordinator::require_no_problem({}, collectives, topology);
    coordinator::agree_on_plan(
        name_,
        coordinator::describe_plan(gradients, options_.op, tuning.choice().bucket_bytes,
                                   options_.wire, options_.compression,
                                   describe_step_options(options_)),
        collectives, topology);
    if (number_ == 0) {
      number_ = runtime_.plan_names().agree(given_name_, collectives);
      name_ = numbered_name(given_name_, number_);
    }
    tuning.begin(collectives);
    made = communicator(tuning.choice(), *waits);
    if (const auto other = tuning.other_way()) spare = communicator(*other, *waits);
    if (made->collectives().uses_mapped_buffers() && is_elementwise(options_.op))
      mapped =
          coordinator::find_mapped_gradients(gradients, runtime_.arenas(), collectives, topology);
    if (channel != nullptr) *channel = runtime_.transport().make_message_channel();
  };
  runtime_.run_task(std::move(entry));

  coordinator::BucketPlan plan = coordinator::make_bucket_plan(
      gradients, tuning.choice().bucket_bytes, options_.first_bucket_bytes);
  coordinator::CompressedPlan compressed(gradients, plan, options_.compression, topology);
  const coordinator::StepSettings settings = step_settings();
  return {.gradients = {gradients.begin(), gradients.end()},
          .mapped = std::move(mapped),
          .plan = std::move(plan),
          .compressed = std::move(compressed),
          .treatment = settings.is_needed() ? std::make_unique<coordinator::StepTreatment>(
                                                  gradients, settings, topology)
                                            : nullptr,
          .waits = std::move(waits),
          .communicator = std::move(made),
          .spare = std::move(spare)};
}

}  // namespace horo

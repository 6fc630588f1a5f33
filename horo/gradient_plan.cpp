#include "horo/gradient_plan.h"

#include "horo/coordinator/mapped_gradients.h"
#include "horo/coordinator/plan_agreement.h"
#include "horo/gradient_checks.h"

namespace horo {

GradientPlan::GradientPlan(Runtime& runtime, std::string name, const GradientSyncOptions& options)
    : runtime_(runtime),
      name_(std::move(name)),
      options_(options),
      bucket_bytes_(options.bucket_bytes.value_or(runtime.settings().bucket_bytes)) {}

coordinator::StepSettings GradientPlan::step_settings() const {
  return {.is_weighted = options_.weighted,
          .finds_unused = options_.find_unused,
          .checks_finite = options_.check_finite,
          .clip_norm = options_.clip_norm,
          .metrics = options_.metrics};
}

coordinator::BucketPlan GradientPlan::pack(std::span<const NamedTensor> gradients) const {
  return coordinator::make_bucket_plan(gradients, bucket_bytes_, options_.first_bucket_bytes);
}

coordinator::BucketPlan GradientPlan::pack(std::span<const NamedTensor> gradients,
                                           std::span<const std::size_t> order) const {
  return coordinator::make_bucket_plan(gradients, order, bucket_bytes_,
                                       options_.first_bucket_bytes);
}

coordinator::BucketRunner::Parts GradientPlan::agree(
    const std::string& operation, std::span<const NamedTensor> gradients,
    std::function<void()> look, std::unique_ptr<collectives::MessageChannel>* channel) const {
  const Topology& topology = runtime_.topology();
  auto waits =
      std::make_unique<coordinator::PlanWaits>(runtime_.transport().wait_policy(), std::move(look));
  std::unique_ptr<collectives::Communicator> communicator;
  coordinator::MappedGradients mapped;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = operation;
  entry.task = [&](collectives::Collectives& collectives) {
    coordinator::agree_on_plan(
        name_,
        coordinator::describe_plan(gradients, options_.op, bucket_bytes_, options_.wire,
                                   options_.compression, describe_step_options(options_)),
        collectives, topology);
    communicator = std::make_unique<collectives::Communicator>(
        runtime_.transport(), runtime_.settings(), runtime_.allreduce(), waits->in_node,
        waits->between_nodes, options_.wire);
    if (communicator->collectives().uses_mapped_buffers() && is_elementwise(options_.op))
      mapped =
          coordinator::find_mapped_gradients(gradients, runtime_.arenas(), collectives, topology);
    if (channel != nullptr) *channel = runtime_.transport().make_message_channel();
  };
  runtime_.run_task(std::move(entry));

  coordinator::BucketPlan plan = pack(gradients);
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
          .communicator = std::move(communicator)};
}

}  // namespace horo

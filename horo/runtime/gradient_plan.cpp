#include "horo/runtime/gradient_plan.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/agreement.h"
#include "horo/base/error.h"
#include "horo/plan/gradients/gradient_checks.h"
#include "horo/plan/gradients/mapped_gradients.h"
#include "horo/plan/host_plan_exchange.h"
#include "horo/plan/plan_agreement.h"
#include "horo/runtime/device_connection.h"

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
  // Tuning would move the reduced gradients, whose location the program has read.
  options_.autotune =
      options.autotune.value_or(runtime.settings().autotune && !options.leave_as_reduced);
}

GradientPlan::~GradientPlan() {
  // A child process of fork() must not call release(), because the mutex stays locked there if
  // another thread held it at the fork.
  if (number_ != 0 && !runtime_.home().is_elsewhere())
    runtime_.plan_names().release(given_name_, number_);
}

namespace {

std::vector<bool> find_metrics(std::span<const NamedTensor> gradients,
                               std::span<const std::string> metrics) {
  std::vector<bool> is_metric;
  for (const NamedTensor& gradient : gradients)
    is_metric.push_back(std::ranges::find(metrics, gradient.name) != metrics.end());
  return is_metric;
}

}  // namespace

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

std::unique_ptr<plan::DevicePlanExchange> GradientPlan::device_exchange(
    std::span<const NamedTensor> gradients, std::vector<bool> is_metric,
    const plan::PlanChoice& choice, std::function<void()> look) const {
  const std::shared_ptr<device::Device> device = device_of(gradients)->share();
  device->make_current();
  GradientSyncOptions options = options_;
  options.chunk_bytes = choice.chunk_bytes;
  return std::make_unique<plan::DevicePlanExchange>(plan::DevicePlanExchange::Parts{
      .name = name_,
      .device = device,
      .topology = runtime_.topology(),
      .end_job = [&runtime = runtime_](const std::string& why) { runtime.end_job(why); },
      .connect =
          [&runtime = runtime_, name = name_, device](coordinator::PlanWaits& waits,
                                                      std::size_t max_ctas,
                                                      collectives::Collectives& control) {
            return connect_devices(runtime, name, *device, waits, max_ctas, control);
          },
      .policy = runtime_.transport().wait_policy(),
      .look = std::move(look),
      .gradients = {gradients.begin(), gradients.end()},
      .is_metric = std::move(is_metric),
      .options = options,
      .max_ctas = choice.nccl_max_ctas});
}

// The task is a named operation. On each rank, the owner of the coordinator's rounds runs the task,
// at the same position in the sequence of collectives. So the collectives of the task match even if
// several threads make plans. The task may refer to this stack frame, because run_task() waits for
// the task.
//
// The order in the task matters. agree_on_plan() precedes the other steps, because they require
// equal arguments on all ranks. The first plan gets the numbered name, and its replacements keep
// it. The communicators are made after tuning->begin(), because they use tuning->choice(). An error
// of use_plan() is equal on all ranks. It is thrown after the task, because an error of a task ends
// the job.
plan::BucketScheduler::Parts GradientPlan::agree(
    const std::string& operation, std::span<const NamedTensor> gradients, std::string found,
    std::function<void()> look, std::unique_ptr<collectives::MessageChannel>* channel) {
  const Topology& topology = runtime_.topology();
  auto tuning = std::make_unique<plan::PlanTuning>(given_name_, gradients, options_,
                                                   runtime_.settings(), topology, std::move(found));
  auto waits = std::make_unique<coordinator::PlanWaits>(runtime_.transport().wait_policy(), look);
  device::Device* const device = device_of(gradients);
  const std::vector<bool> is_metric = find_metrics(gradients, options_.metrics);
  std::unique_ptr<collectives::Communicator> current, spare;
  std::unique_ptr<plan::DevicePlanExchange> on_device;
  plan::MappedGradients mapped;
  plan::BucketPlan plan;
  std::exception_ptr device_error;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = operation;
  entry.task = [&](collectives::Collectives& collectives) {
    collectives::require_no_problem({}, collectives, topology);
    plan::agree_on_plan(
        name_,
        plan::describe_plan(gradients, options_.op, tuning->choice().bucket_bytes, options_.wire,
                            options_.compression, describe_step_options(options_, device)),
        collectives, topology);
    if (number_ == 0) {
      number_ = runtime_.plan_names().agree(given_name_, collectives);
      name_ = plan::numbered_name(given_name_, number_);
    }
    tuning->begin(collectives);
    current = communicator(tuning->choice(), *waits);
    if (const auto other = tuning->other_way()) spare = communicator(*other, *waits);
    plan = plan::make_bucket_plan(gradients,
                                  {tuning->choice().bucket_bytes, options_.first_bucket_bytes});
    if (device != nullptr) {
      on_device = device_exchange(gradients, is_metric, tuning->choice(), look);
      plan = on_device->fit(plan);
      try {
        on_device->use_plan(plan, collectives);
      } catch (const DeviceError&) {
        device_error = std::current_exception();
      }
    } else if (current->collectives().uses_mapped_buffers() && is_elementwise(options_.op)) {
      mapped = plan::find_mapped_gradients(gradients, runtime_.arenas(), collectives, topology);
    }
    if (channel != nullptr) *channel = runtime_.transport().make_message_channel();
  };
  runtime_.run_task(std::move(entry));
  if (device_error != nullptr) std::rethrow_exception(device_error);

  plan::StepHooks hooks(gradients, plan, options_, topology, std::move(tuning));
  auto communicators = std::make_unique<plan::PlanCommunicators>(
      std::move(waits), std::move(current), std::move(spare));
  std::unique_ptr<plan::PlanExchange> exchange = std::move(on_device);
  if (exchange == nullptr) {
    exchange = std::make_unique<plan::HostPlanExchange>(
        std::vector<NamedTensor>(gradients.begin(), gradients.end()), is_metric, std::move(mapped),
        *hooks.compression, *communicators, topology);
    exchange->use_plan(plan, communicators->current().collectives());
  }
  return {.gradients = {gradients.begin(), gradients.end()},
          .plan = std::move(plan),
          .hooks = std::move(hooks),
          .exchange = std::move(exchange),
          .communicators = std::move(communicators)};
}

}  // namespace horo

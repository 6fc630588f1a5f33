#include "horo/runtime/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/device/memory_spans.h"
#include "horo/base/error.h"
#include "horo/plan/gradient_checks.h"
#include "horo/plan/plan_agreement.h"
#include "horo/runtime/device_connection.h"

namespace horo {
namespace {

using plan::DeviceRunner;

/// Makes the parts of one plan. The ranks agree on the plan in a task, which the owner of the
/// coordinator's rounds runs. The caller waits in make() meanwhile, so the two threads do not use
/// the object at the same time.
class PlanMaker {
 public:
  PlanMaker(Runtime& runtime, const std::string& name, device::Device& device,
            std::span<const NamedTensor> gradients, const GradientSyncOptions& options)
      : runtime_(runtime),
        name_(name),
        options_(options),
        gradients_(gradients),
        bucket_bytes_(options.bucket_bytes.value_or(runtime.settings().bucket_bytes)),
        parts_{.device = device,
               .topology = runtime.topology(),
               .end_job = [&runtime](const std::string& why) { runtime.end_job(why); },
               .gradients = {gradients.begin(), gradients.end()},
               .plan = cut_by_wire(
                   plan::make_bucket_plan(gradients, {bucket_bytes_, options.first_bucket_bytes})),
               .layouts = {},
               .waits = std::make_unique<coordinator::PlanWaits>(runtime.transport().wait_policy()),
               .communicator = nullptr,
               .collectives = nullptr,
               .pipeline = nullptr} {}

  DeviceRunner::Parts make() {
    coordinator::Entry entry;
    entry.request.kind = coordinator::Kind::kTask;
    entry.request.name = name_;
    entry.task = [this](collectives::Collectives& control) { agree(control); };
    runtime_.run_task(std::move(entry));
    if (!job_error_text_.empty()) throw DeviceError(job_error_text_);
    return std::move(parts_);
  }

 private:
  DataType wire_of(std::size_t gradient) const {
    const NamedTensor& own = gradients_[gradient];
    const bool is_exact = own.tensor.type() != DataType::kFloat32 ||
                          std::ranges::find(options_.metrics, own.name) != options_.metrics.end();
    return is_exact ? own.tensor.type() : options_.wire.value_or(DataType::kFloat32);
  }

  // Splits buckets so that the gradients of a bucket have one wire type. They have one element type
  // already, but metrics are sent as their own type. Keeps the order of the gradients.
  plan::BucketPlan cut_by_wire(const plan::BucketPlan& plan) const {
    plan::BucketPlan cut{.buckets = {}, .bucket_of = plan.bucket_of};
    for (const std::vector<std::size_t>& members : plan.buckets)
      for (const std::size_t i : members) {
        if (i == members.front() || wire_of(i) != wire_of(cut.buckets.back().front()))
          cut.buckets.emplace_back();
        cut.buckets.back().push_back(i);
        cut.bucket_of[i] = cut.buckets.size() - 1;
      }
    return cut;
  }

  std::vector<TensorView> tensors_of(const std::vector<std::size_t>& members) const {
    std::vector<TensorView> tensors;
    for (const std::size_t i : members) tensors.push_back(parts_.gradients[i].tensor);
    return tensors;
  }

  // The memory layout of gradients may differ between ranks, but all ranks must reduce the same
  // gradients in place. So the plan uses only the properties that hold on all ranks. A property is
  // a flag of one byte, and the ranks take the minimum of each flag.
  std::vector<collectives::MemoryFacts> agree_on_memory(collectives::Collectives& control) const {
    std::vector<collectives::MemoryFacts> facts;
    for (const std::vector<std::size_t>& members : parts_.plan.buckets)
      std::ranges::copy(collectives::memory_facts(tensors_of(members)), std::back_inserter(facts));
    static_assert(sizeof(collectives::MemoryFacts) == 3);
    if (topology().size > 1)
      control.allreduce({DataType::kInt8, facts.data(), facts.size() * 3}, ReduceOp::kMin);
    return facts;
  }

  void lay_out(std::span<const collectives::MemoryFacts> facts) {
    for (const std::vector<std::size_t>& members : parts_.plan.buckets) {
      const std::vector<TensorView> tensors = tensors_of(members);
      const DataType type = tensors.front().type();
      const DataType wire = wire_of(members.front());
      std::vector<collectives::MemorySpan> in_place;
      if (options_.in_place_bytes && wire == type)
        in_place = collectives::memory_spans(tensors, facts.first(tensors.size()),
                                             *options_.in_place_bytes);
      parts_.layouts.emplace_back(tensors, wire, options_.chunk_bytes, in_place);
      facts = facts.subspan(tensors.size());
    }
  }

  // If connect_devices() returns an error or the allocation fails, the rank stores the error text
  // and executes first_problem(). make() then throws the same text on all ranks. So no rank waits
  // for a rank that has thrown.
  void agree(collectives::Collectives& control) {
    collectives::require_no_problem({}, control, topology());
    plan::agree_on_plan(
        name_,
        plan::describe_plan(parts_.gradients, options_.op, bucket_bytes_, options_.wire, {},
                            describe_step_options(options_, &parts_.device)),
        control, topology());
    lay_out(agree_on_memory(control));
    if (topology().size > 1) {
      DeviceConnection made =
          connect_devices(runtime_, name_, parts_.device, *parts_.waits, control);
      parts_.communicator = std::move(made.communicator);
      parts_.collectives = std::move(made.collectives);
      if (!made.error_text.empty()) refuse(made.error_text);
    }
    make_pipeline(control);
  }

  const Topology& topology() const { return runtime_.topology(); }

  void refuse(const std::string& why) {
    error_text_ =
        fmt::format("{}, for gradients '{}': {}", topology().describe(topology().rank), name_, why);
  }

  void allocate(collectives::Collectives& control) {
    if (parts_.collectives == nullptr) return;
    for (const auto& layout : parts_.layouts)
      for (const auto& [data, count] : layout.spans())
        parts_.collectives->register_memory(data, count * size_of(layout.type()), control);
    std::size_t bytes = 0;
    if (options_.leave_as_reduced)
      bytes = collectives::ChunkPipeline::place_apart(parts_.layouts);
    else
      for (const auto& layout : parts_.layouts) bytes = std::max(bytes, layout.buffer_bytes());
    parts_.pipeline = horo::make_pipeline(parts_.device, *parts_.collectives, bytes, control,
                                          options_.leave_as_reduced ? 1 : 2);
  }

  // A rank with an error skips allocate(). If all GPUs are connected with each other, allocate() is
  // collective. In that case no rank has an error here, because connect_devices() would have thrown
  // the error. If the devices are connected by nodes, allocate() sends no messages.
  void make_pipeline(collectives::Collectives& control) {
    try {
      if (error_text_.empty()) allocate(control);
    } catch (const DeviceError& error) {
      refuse(error.what());
    }
    job_error_text_ = first_problem(error_text_, control, topology());
  }

  Runtime& runtime_;
  const std::string name_;
  const GradientSyncOptions options_;
  const std::span<const NamedTensor> gradients_;
  const std::size_t bucket_bytes_;
  DeviceRunner::Parts parts_;
  std::string error_text_;      // why this rank cannot continue
  std::string job_error_text_;  // why the job cannot continue; equal on all ranks
};

}  // namespace

plan::DeviceRunner::Parts agree_on_device_plan(Runtime& runtime, const std::string& name,
                                               device::Device& device,
                                               std::span<const NamedTensor> gradients,
                                               const GradientSyncOptions& options) {
  return PlanMaker(runtime, name, device, gradients, options).make();
}

}  // namespace horo

#include "horo/device_gradient_sync.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "horo/coordinator/allreduce_checks.h"
#include "horo/plan/gradient_checks.h"
#include "horo/runtime/device_plan.h"
#include "horo/runtime/gradient_plan.h"

namespace horo {
namespace {

void check_options(const DeviceGradientSyncOptions& options) {
  HORO_CHECK(options.op != ReduceOp::kAdasum,
             "DeviceGradientSync: Adasum is for gradients in host memory; see GradientSync");
  HORO_CHECK(options.chunk_bytes > 0, "DeviceGradientSync: chunk_bytes is 0");
  HORO_CHECK(
      !options.wire || *options.wire == DataType::kFloat16 || *options.wire == DataType::kBFloat16,
      fmt::format("DeviceGradientSync: wire is {}; gradients can be sent as float16, bfloat16 or "
                  "(unset) their own type",
                  name_of(*options.wire)));
}

void check_types(std::span<const NamedTensor> gradients, const DeviceGradientSyncOptions& options) {
  for (const NamedTensor& gradient : gradients) {
    check_device_type("DeviceGradientSync", gradient.name, gradient.tensor.type());
    HORO_CHECK(!options.leave_as_reduced || is_floating(gradient.tensor.type()),
               fmt::format("DeviceGradientSync: leave_as_reduced requires floating-point "
                           "gradients; gradient '{}' is {}",
                           gradient.name, name_of(gradient.tensor.type())));
  }
}

void check_memory(std::span<const NamedTensor> gradients, const device::Device& device) {
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(gradient.tensor.count() == 0 || device.owns(gradient.tensor.data()),
               fmt::format("DeviceGradientSync: gradient '{}' does not lie in memory of {}",
                           gradient.name, device.describe()));
}

}  // namespace

class DeviceGradientSync::Impl {
 public:
  Impl(Context& context, device::Device& device, std::span<const NamedTensor> gradients,
       const DeviceGradientSyncOptions& options)
      : runtime_(context.runtime()),
        spec_{.op = options.op, .leave_as_reduced = options.leave_as_reduced} {
    const std::string name =
        options.name.empty() ? runtime_->automatic_name("gradients") : options.name;
    check_together(*runtime_, name, [&] {
      check_options(options);
      check_gradients(gradients, {.op = options.op, .metrics = options.metrics});
      check_types(gradients, options);
      check_memory(gradients, device);
    });
    device.make_current();
    auto runner = std::make_unique<plan::DeviceRunner>(
        agree_on_device_plan(*runtime_, name, device, gradients, options), spec_,
        [runtime = runtime_.get()](std::size_t bytes, std::size_t tensors) {
          runtime->count_collective(bytes, tensors);
        },
        runtime_->recorder(), name, runtime_->topology().set_name());
    // The destructor of the runner joins the runner's thread. A child process of fork() does not
    // have that thread, so it leaks the runner. The deleter shares the ownership of the runtime, so
    // the runtime outlives the runner.
    runner_ = {runner.release(), [runtime = runtime_](plan::DeviceRunner* owned) {
                 if (!runtime->home().is_elsewhere()) delete owned;
               }};
    for (const NamedTensor& gradient : gradients) names_.push_back(gradient.name);
  }

  const plan::BucketPlan& plan() const { return runner_->plan(); }
  plan::DeviceRunner& runner() { return *runner_; }

  void ready(std::size_t index, void* stream) {
    runtime_->require_usable();
    HORO_CHECK(index < names_.size(),
               fmt::format("ready({}): only {} gradients are registered", index, names_.size()));
    HORO_CHECK(runner_->mark(index, stream),
               fmt::format("gradient '{}' was marked ready twice in one step", names_[index]));
  }

  DeviceStepGraph capture(void* stream, const std::function<void()>& step) {
    coordinator::forbid_blocking_in_callbacks();
    runtime_->require_usable();
    return DeviceStepGraph(runtime_, runner_, runner_->capture(stream, step));
  }

  // Throws InvalidArgument if gradients are not marked. Throws the error of the exchange if the
  // exchange has failed.
  void require_complete() const {
    coordinator::forbid_blocking_in_callbacks();
    runtime_->require_usable();
    std::vector<std::string> names;
    for (const std::size_t i : runner_->unmarked()) names.push_back(names_[i]);
    HORO_CHECK(names.empty(),
               fmt::format("{} of {} gradients were not marked ready in this step: {}",
                           names.size(), names_.size(), fmt::join(names, ", ")));
  }

  ReducedGradient reduced(std::size_t index) const {
    HORO_CHECK(index < names_.size(),
               fmt::format("reduced({}): only {} gradients are registered", index, names_.size()));
    const auto& parts = runner_->parts();
    const TensorView& own = parts.gradients[index].tensor;
    ReducedGradient where{own.data(), own.type(), 1};
    // If only one rank takes part, the gradient is not moved, because nothing is exchanged.
    if (!spec_.leave_as_reduced || parts.pipeline == nullptr) return where;
    const std::size_t bucket = parts.plan.bucket_of[index];
    const auto& members = parts.plan.buckets[bucket];
    const auto& layout = parts.layouts[bucket];
    where.scale = collectives::ChunkPipeline::factor_left(spec_, layout.type(), layout.wire(),
                                                          parts.collectives->size());
    const auto place =
        static_cast<std::size_t>(std::ranges::find(members, index) - members.begin());
    if (const auto offset = layout.offset_of(place)) {
      where.type = layout.wire();
      where.data = parts.pipeline->buffer() + layout.place() + *offset * size_of(where.type);
    }
    return where;
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  const collectives::ChunkPipeline::ReduceSpec spec_;
  std::vector<std::string> names_;
  std::shared_ptr<plan::DeviceRunner> runner_;
};

DeviceGradientSync::DeviceGradientSync(Context& context, device::Device& device,
                                       std::span<const NamedTensor> gradients,
                                       const DeviceGradientSyncOptions& options) {
  coordinator::forbid_blocking_in_callbacks();
  impl_ = std::make_unique<Impl>(context, device, gradients, options);
}
DeviceGradientSync::DeviceGradientSync(DeviceGradientSync&&) noexcept = default;
DeviceGradientSync& DeviceGradientSync::operator=(DeviceGradientSync&&) noexcept = default;
DeviceGradientSync::~DeviceGradientSync() = default;

void DeviceGradientSync::ready(std::size_t index, void* stream) { impl_->ready(index, stream); }
void DeviceGradientSync::wait_on(void* stream) {
  impl_->require_complete();
  impl_->runner().wait_on(stream);
}
void DeviceGradientSync::check() { impl_->runner().check(); }
void DeviceGradientSync::wait() {
  impl_->require_complete();
  impl_->runner().wait();
}
DeviceStepGraph DeviceGradientSync::capture(void* stream, const std::function<void()>& step) {
  return impl_->capture(stream, step);
}

ReducedGradient DeviceGradientSync::reduced(std::size_t index) const {
  return impl_->reduced(index);
}
std::size_t DeviceGradientSync::bucket_count() const { return impl_->plan().buckets.size(); }
const std::vector<std::size_t>& DeviceGradientSync::bucket(std::size_t bucket) const {
  HORO_CHECK(bucket < bucket_count(),
             fmt::format("bucket {} of {} does not exist", bucket, bucket_count()));
  return impl_->plan().buckets[bucket];
}

}  // namespace horo

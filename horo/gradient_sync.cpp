#include "horo/gradient_sync.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "horo/coordinator/bucket_plan.h"
#include "horo/coordinator/bucket_runner.h"
#include "horo/coordinator/compression_settings.h"
#include "horo/coordinator/mapped_gradients.h"
#include "horo/coordinator/plan_agreement.h"
#include "horo/runtime.h"

namespace horo {
namespace {

void check_names(std::span<const NamedTensor> gradients) {
  HORO_CHECK(!gradients.empty(), "GradientSync needs at least one gradient");
  std::unordered_set<std::string_view> names;
  for (const NamedTensor& gradient : gradients) {
    HORO_CHECK(!gradient.name.empty(), "GradientSync: every gradient needs a name");
    HORO_CHECK(names.insert(gradient.name).second,
               fmt::format("GradientSync: two gradients are called '{}'", gradient.name));
    HORO_CHECK(gradient.tensor.data() != nullptr || gradient.tensor.count() == 0,
               fmt::format("GradientSync: gradient '{}' has no memory", gradient.name));
  }
}

void check_adasum(std::span<const NamedTensor> gradients, const GradientSyncOptions& options) {
  if (options.op != ReduceOp::kAdasum) return;
  for (const NamedTensor& gradient : gradients)
    HORO_CHECK(is_floating(gradient.tensor.type()),
               fmt::format("GradientSync: Adasum is for floating point; gradient '{}' is {}",
                           gradient.name, name_of(gradient.tensor.type())));
  HORO_CHECK(!options.wire,
             "GradientSync: with Adasum gradients travel as their own type; leave wire unset");
}

}  // namespace

class GradientSync::Impl {
 public:
  Impl(Context& context, std::span<const NamedTensor> gradients, const GradientSyncOptions& options)
      : runtime_(context.runtime()) {
    check_names(gradients);
    HORO_CHECK(!options.wire || *options.wire == DataType::kFloat16 ||
                   *options.wire == DataType::kBFloat16,
               fmt::format("GradientSync: the wire type can be float16 or bfloat16, not {}",
                           horo::name_of(*options.wire)));
    check_adasum(gradients, options);
    coordinator::check_compression(options.compression, options.op, options.wire, gradients);
    const std::size_t bucket_bytes =
        options.bucket_bytes.value_or(runtime_->settings().bucket_bytes);
    for (const NamedTensor& gradient : gradients) names_.push_back(gradient.name);
    auto waits = std::make_unique<coordinator::PlanWaits>(runtime_->transport().wait_policy());
    std::unique_ptr<collectives::Communicator> communicator;
    coordinator::MappedGradients mapped;

    coordinator::Entry entry;
    entry.request.kind = coordinator::Kind::kTask;
    name_ = options.name.empty() ? runtime_->automatic_name("gradients") : options.name;
    entry.request.name = name_;
    // Among the named operations, so that all ranks do it at the same point and a missing rank is
    // named.
    entry.task = [&](collectives::Collectives& collectives) {
      coordinator::agree_on_plan(name_,
                                 coordinator::describe_plan(gradients, options.op, bucket_bytes,
                                                            options.wire, options.compression),
                                 collectives, runtime_->topology());
      communicator = std::make_unique<collectives::Communicator>(
          runtime_->transport(), runtime_->settings(), runtime_->allreduce(), waits->in_node,
          waits->between_nodes, options.wire);
      if (communicator->collectives().uses_mapped_buffers() && is_elementwise(options.op))
        mapped = coordinator::find_mapped_gradients(gradients, runtime_->arenas(), collectives,
                                                    runtime_->topology());
    };
    runtime_->submit(std::move(entry))->wait();
    coordinator::BucketPlan plan = coordinator::make_bucket_plan(gradients, bucket_bytes);
    coordinator::CompressedPlan compressed(gradients, plan, options.compression,
                                           runtime_->topology());
    runner_ = std::make_unique<coordinator::BucketRunner>(
        gradients, std::move(mapped), runtime_->topology().local_rank, std::move(plan),
        std::move(compressed), options.op, std::move(waits), std::move(communicator),
        [runtime = runtime_.get()](std::size_t bytes, std::size_t tensors) {
          runtime->count_collective(bytes, tensors);
        });
    watched_ = runtime_->activity().add([this](observe::RankSnapshot& snapshot) {
      runner_->progress().add_to(snapshot, name_, runner_->plan().buckets.size());
    });
  }

  coordinator::BucketRunner& runner() { return *runner_; }
  const std::string& name_of(std::size_t index) const { return names_[index]; }

  std::vector<std::byte> save_compression_state() {
    require_none_marked("save_compression_state()");
    return runner_->compressed().save_state();
  }

  void load_compression_state(std::span<const std::byte> state) {
    require_none_marked("load_compression_state()");
    coordinator::Entry entry;
    entry.request.kind = coordinator::Kind::kTask;
    entry.request.name = name_ + ".load_compression_state";
    entry.task = [&](collectives::Collectives& collectives) {
      runner_->compressed().load_state(state, collectives, runtime_->topology());
    };
    runtime_->submit(std::move(entry))->wait();
  }

  void require_none_marked(std::string_view what) const {
    HORO_CHECK(runner_->unmarked().size() == names_.size(),
               fmt::format("{} between ready() and wait(); call it after wait()", what));
  }

  void require_all_marked() const {
    const std::vector<std::size_t> missing = runner_->unmarked();
    if (missing.empty()) return;
    std::vector<std::string_view> names;
    for (std::size_t i : missing)
      if (names.size() < 6) names.push_back(names_[i]);
    throw InvalidArgument(fmt::format("wait() before ready() of {} of {} gradients: {}{}",
                                      missing.size(), names_.size(), fmt::join(names, ", "),
                                      missing.size() > 6 ? ", ..." : ""));
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::string name_;
  std::vector<std::string> names_;
  std::unique_ptr<coordinator::BucketRunner> runner_;
  observe::RankActivity::Registration watched_;  // ends before what it looks at
};

GradientSync::GradientSync(Context& context, std::span<const NamedTensor> gradients,
                           const GradientSyncOptions& options)
    : impl_(std::make_unique<Impl>(context, gradients, options)) {}
GradientSync::GradientSync(GradientSync&&) noexcept = default;
GradientSync& GradientSync::operator=(GradientSync&&) noexcept = default;
GradientSync::~GradientSync() = default;

void GradientSync::ready(std::size_t index) {
  HORO_CHECK(index < impl_->runner().gradient_count(),
             fmt::format("ready({}): only {} gradients are registered", index,
                         impl_->runner().gradient_count()));
  HORO_CHECK(
      impl_->runner().mark(index),
      fmt::format("gradient '{}' was marked ready twice in one step", impl_->name_of(index)));
}

void GradientSync::wait() {
  impl_->require_all_marked();
  impl_->runner().wait();
}

void GradientSync::exchange() {
  impl_->runner().mark_all();
  impl_->runner().wait();
}

std::size_t GradientSync::bucket_count() const { return impl_->runner().plan().buckets.size(); }
WireReport GradientSync::wire_report() const { return impl_->runner().wire_report(); }
CompressionReport GradientSync::compression_report() const {
  return impl_->runner().compressed().report();
}
std::vector<std::byte> GradientSync::save_compression_state() const {
  return impl_->save_compression_state();
}
void GradientSync::load_compression_state(std::span<const std::byte> state) {
  impl_->load_compression_state(state);
}
bool GradientSync::is_in_place(std::size_t bucket) const {
  HORO_CHECK(bucket < bucket_count(),
             fmt::format("bucket {} of {} does not exist", bucket, bucket_count()));
  return impl_->runner().is_mapped(bucket);
}
const std::vector<std::size_t>& GradientSync::bucket(std::size_t bucket) const {
  HORO_CHECK(bucket < bucket_count(),
             fmt::format("bucket {} of {} does not exist", bucket, bucket_count()));
  return impl_->runner().plan().buckets[bucket];
}

}  // namespace horo

#include "horo/gradient_sync.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/agreement.h"
#include "horo/coordinator/operation_flights.h"
#include "horo/plan/bucket_scheduler.h"
#include "horo/plan/gradients/gradient_checks.h"
#include "horo/plan/plan_update_rendezvous.h"
#include "horo/runtime/gradient_plan.h"
#include "horo/runtime/runtime.h"

namespace horo {

using plan::BucketScheduler;
using plan::PlanUpdateRendezvous;

/// The state of a GradientSync, and code that several of its functions use.
struct GradientSync::Impl {
  Impl(Context& context, std::span<const NamedTensor> registered,
       const GradientSyncOptions& options);

  /// Throws in a child process of fork() and after the program has called MPI_Finalize.
  void require_usable() const { runtime->require_usable(); }
  /// The same, for a function that waits for other ranks. Also throws in a completion callback.
  void require_may_wait() const {
    coordinator::forbid_blocking_in_callbacks();
    require_usable();
  }
  void require_registered(std::string_view what, std::size_t index) const;
  plan::DevicePlanExchange* on_device() const { return scheduler->exchange().on_device(); }
  void require_host_memory(std::string_view what) const {
    HORO_CHECK(on_device() == nullptr, fmt::format("{} requires gradients in host memory", what));
  }
  void require_device_memory(std::string_view what) const {
    HORO_CHECK(on_device() != nullptr, fmt::format("{} requires gradients in device memory", what));
  }
  void require_none_marked(std::string_view what) const;
  void require_weights(std::string_view what) const;
  void require_bucket(std::size_t bucket) const;
  /// Throws InvalidArgument if `unmarked` is not empty, unless find_unused is set. The text has at
  /// most 6 names.
  void require_unused_allowed(const std::vector<std::size_t>& unmarked) const;

  const plan::BucketPlan& bucket_plan() const { return scheduler->plan(); }
  void make_scheduler(const GradientSyncOptions& options);
  void mark(std::size_t index, void* stream);
  struct Meeting {
    std::unique_ptr<PlanUpdateRendezvous> rendezvous;  // null if only one rank takes part
  };
  PlanUpdateRendezvous* rendezvous() const { return meeting->rendezvous.get(); }
  /// Returns a deleter that does nothing in a child process of fork().
  template <typename T>
  std::function<void(T*)> leak_in_child() const {
    return [runtime = runtime](T* owned) {
      if (!runtime->home().is_elsewhere()) delete owned;
    };
  }
  bool has_peers() const { return runtime->topology().size > 1; }
  std::string update_name() const { return plan.name() + ".update"; }
  coordinator::Entry make_task(const std::string& name) const;
  BucketScheduler::Parts agree(const std::string& operation,
                               std::span<const NamedTensor> registered, std::string found,
                               std::unique_ptr<collectives::MessageChannel>* channel);
  void hold_first_passes();
  const StepReport& end_pass();
  /// Ends the pass. `stream` is that of wait_on(), if the step ends with wait_on().
  const StepReport& end_pass_or_step(std::optional<void*> stream);
  const StepReport& exchange_step(std::span<const std::size_t> unmarked,
                                  std::optional<void*> stream);
  const StepReport& wait_for_exchange(std::optional<void*> stream);
  void wait_for_updates();

  const std::shared_ptr<Runtime> runtime;
  GradientPlan plan;
  std::vector<NamedTensor> gradients;
  // Shared with the scheduler, whose waits use the rendezvous.
  std::shared_ptr<Meeting> meeting = {new Meeting, leak_in_child<Meeting>()};
  std::shared_ptr<BucketScheduler> scheduler;  // shared with the StepGraphs
  std::size_t pass = 0;                        // index of the current pass in its step
  std::size_t no_sync_depth = 0;
  std::vector<std::size_t> unused;
  const StepReport report_of_pass;  // the report of a pass that exchanges nothing
};

GradientSync::Impl::Impl(Context& context, std::span<const NamedTensor> registered,
                         const GradientSyncOptions& options)
    : runtime(context.runtime()),
      plan(*runtime, options.name.empty() ? runtime->automatic_name("gradients") : options.name,
           options),
      gradients(registered.begin(), registered.end()) {
  check_together(*runtime, plan.name(), [&] { check_gradients(gradients, options); });
  make_scheduler(options);
}

// The scheduler's thread does not exist in a child process of fork(), and MPI must not be called
// there. So the child leaks the scheduler. The deleter shares the ownership of the runtime and of
// the rendezvous, so both outlive the scheduler, which a StepGraph may keep.
void GradientSync::Impl::make_scheduler(const GradientSyncOptions& options) {
  const Topology& topology = runtime->topology();
  std::unique_ptr<collectives::MessageChannel> channel;
  BucketScheduler::Parts parts =
      agree(plan.name(), gradients, {}, has_peers() ? &channel : nullptr);
  if (has_peers())
    meeting->rendezvous = std::make_unique<PlanUpdateRendezvous>(
        plan.name(), topology, std::move(channel), runtime->long_waits());
  scheduler = {
      new BucketScheduler(
          std::move(parts), topology, options.op,
          {.count = [counter = runtime.get()](
                        std::size_t bytes,
                        std::size_t tensors) { counter->count_collective(bytes, tensors); },
           .end_step =
               [rendezvous = rendezvous()] {
                 if (rendezvous != nullptr) rendezvous->end_step();
               }},
          runtime->recorder(), plan.name(),
          metrics::StepMeter(runtime->meter(), {plan.name(), topology.set_name(), topology.size})),
      [leak = leak_in_child<BucketScheduler>(), meeting = meeting](BucketScheduler* made) {
        leak(made);
      }};
  hold_first_passes();
}

BucketScheduler::Parts GradientSync::Impl::agree(
    const std::string& operation, std::span<const NamedTensor> registered, std::string found,
    std::unique_ptr<collectives::MessageChannel>* channel) {
  std::function<void()> look;
  if (has_peers())
    look = [meeting = meeting] {
      if (meeting->rendezvous != nullptr) meeting->rendezvous->check_while_exchanging();
    };
  return plan.agree(operation, registered, std::move(found), std::move(look), channel);
}

coordinator::Entry GradientSync::Impl::make_task(const std::string& name) const {
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = name;
  return entry;
}

void GradientSync::Impl::require_registered(std::string_view what, std::size_t index) const {
  HORO_CHECK(index < gradients.size(), fmt::format("{}({}): only {} gradients are registered", what,
                                                   index, gradients.size()));
}

void GradientSync::Impl::require_none_marked(std::string_view what) const {
  HORO_CHECK(!scheduler->marks().is_any_marked(),
             fmt::format("{} between ready() and wait(); call it after wait()", what));
}

void GradientSync::Impl::require_weights(std::string_view what) const {
  HORO_CHECK(scheduler->hooks().weights != nullptr,
             fmt::format("{} needs GradientSyncOptions::weighted", what));
}

void GradientSync::Impl::require_bucket(std::size_t bucket) const {
  const std::size_t count = bucket_plan().buckets.size();
  HORO_CHECK(bucket < count, fmt::format("bucket {} of {} does not exist", bucket, count));
}

void GradientSync::Impl::require_unused_allowed(const std::vector<std::size_t>& unmarked) const {
  if (unmarked.empty() || plan.options().find_unused) return;
  std::vector<std::string_view> names;
  for (std::size_t i : unmarked)
    if (names.size() < 6) names.push_back(gradients[i].name);
  throw InvalidArgument(fmt::format("wait() before ready() of {} of {} gradients: {}{}",
                                    unmarked.size(), gradients.size(), fmt::join(names, ", "),
                                    unmarked.size() > 6 ? ", ..." : ""));
}

void GradientSync::Impl::hold_first_passes() {
  pass = 0;
  if (plan.options().backward_passes_per_step > 1) scheduler->set_held(true);
}

const StepReport& GradientSync::Impl::end_pass() {
  scheduler->end_pass();
  if (const auto& order = scheduler->hooks().order) order->end_pass();
  if (no_sync_depth == 0 && ++pass + 1 == plan.options().backward_passes_per_step)
    scheduler->set_held(false);
  return report_of_pass;
}

const StepReport& GradientSync::Impl::end_pass_or_step(std::optional<void*> stream) {
  require_may_wait();
  if (scheduler->is_held()) return end_pass();
  scheduler->check();
  const std::vector<std::size_t> unmarked = scheduler->marks().unmarked_in_step();
  require_unused_allowed(unmarked);
  return exchange_step(unmarked, stream);
}

// `unmarked` are the gradients that this rank has not marked in any pass of the step.
const StepReport& GradientSync::Impl::exchange_step(std::span<const std::size_t> unmarked,
                                                    std::optional<void*> stream) {
  for (const std::size_t i : unmarked) {
    scheduler->exchange().set_zero(i, stream);
    if (const auto& hook = scheduler->hooks().unused) hook->note(i);
  }
  if (!unused.empty() || !unmarked.empty()) unused.assign(unmarked.begin(), unmarked.end());
  if (!scheduler->marks().are_all_marked()) scheduler->mark_all();
  const StepReport& report = wait_for_exchange(stream);
  hold_first_passes();
  return report;
}

// If another rank has destroyed its GradientSync, the error also states how many steps this rank
// has completed.
const StepReport& GradientSync::Impl::wait_for_exchange(std::optional<void*> stream) {
  try {
    if (!stream) return scheduler->wait();
    scheduler->wait_on(*stream);
    return report_of_pass;
  } catch (const ShutdownError& error) {
    if (rendezvous() == nullptr) throw;
    const std::string text = fmt::format(
        "gradients '{}': {} after {} steps, but {} exchanges another step; call "
        "GradientSync::join() where ranks have data for different numbers of steps",
        plan.name(), error.what(), rendezvous()->steps(),
        runtime->topology().describe(runtime->topology().rank));
    runtime->recorder().note_error(text);
    throw ShutdownError(text);
  }
}

// Waits until all ranks have called update(). The entry is not submitted. It only makes the flight
// recorder show this wait under the name of the tasks that update() runs next.
void GradientSync::Impl::wait_for_updates() {
  if (rendezvous() == nullptr) return;
  coordinator::Entry entry = make_task(update_name());
  coordinator::OperationFlights(runtime->recorder(), runtime->topology().set_name()).open(entry);
  const metrics::Blocked blocked(runtime->meter().get());
  rendezvous()->wait_for_all(runtime->transport().wait_policy(), runtime->settings().stall_warning);
}

GradientSync::GradientSync(Context& context, std::span<const NamedTensor> gradients,
                           const GradientSyncOptions& options) {
  coordinator::forbid_blocking_in_callbacks();
  impl_ = std::make_unique<Impl>(context, gradients, options);
}
GradientSync::GradientSync(GradientSync&&) noexcept = default;
GradientSync& GradientSync::operator=(GradientSync&&) noexcept = default;
GradientSync::~GradientSync() = default;

void GradientSync::Impl::mark(std::size_t index, void* stream) {
  if (const auto& order = scheduler->hooks().order) order->note(index);
  HORO_CHECK(
      scheduler->mark(index, stream),
      fmt::format("gradient '{}' was marked ready twice in one pass", gradients[index].name));
}

void GradientSync::ready(std::size_t index) {
  impl_->require_usable();
  impl_->require_registered("ready", index);
  impl_->require_host_memory("ready() without a stream");
  impl_->mark(index, nullptr);
}

void GradientSync::ready(std::size_t index, const ConstTensorView& gradient) {
  impl_->require_registered("ready", index);
  const auto& [name, registered] = impl_->gradients[index];
  HORO_CHECK(gradient.data() == registered.data(),
             fmt::format(
                 "gradient '{}' was registered at {} and is now at {}: keep its memory in place "
                 "(libtorch: zero_grad(/*set_to_none=*/false)), or register it again with update()",
                 name, fmt::ptr(registered.data()), fmt::ptr(gradient.data())));
  HORO_CHECK(gradient.count() == registered.count() && gradient.type() == registered.type(),
             fmt::format("gradient '{}' was registered as {} {} and is now {} {}: register it "
                         "again with update()",
                         name, name_of(registered.type()), registered.shape().to_string(),
                         name_of(gradient.type()), gradient.shape().to_string()));
  ready(index);
}

void GradientSync::ready(std::size_t index, void* stream) {
  impl_->require_usable();
  impl_->require_registered("ready", index);
  impl_->require_device_memory("ready() with a stream");
  impl_->mark(index, stream);
}

const StepReport& GradientSync::wait() { return impl_->end_pass_or_step(std::nullopt); }

void GradientSync::wait_on(void* stream) {
  impl_->require_device_memory("wait_on()");
  impl_->end_pass_or_step(stream);
}

const StepReport& GradientSync::report() {
  impl_->require_may_wait();
  impl_->require_none_marked("report()");
  return impl_->scheduler->report();
}

void GradientSync::check() { impl_->scheduler->check(); }

StepGraph GradientSync::capture(void* stream, const std::function<void()>& step) {
  impl_->require_may_wait();
  impl_->require_device_memory("capture()");
  return StepGraph(impl_->runtime, impl_->scheduler, impl_->scheduler->capture(stream, step));
}

ReducedGradient GradientSync::reduced(std::size_t index) const {
  impl_->require_registered("reduced", index);
  if (const auto* exchange = impl_->on_device()) return exchange->reduced(index);
  const TensorView& own = impl_->gradients[index].tensor;
  return {own.data(), own.type(), 1};
}

const StepReport& GradientSync::exchange() {
  impl_->require_may_wait();
  impl_->require_host_memory("exchange() without a stream");
  impl_->scheduler->mark_all();
  if (impl_->scheduler->is_held()) {
    impl_->unused.clear();
    return impl_->end_pass();
  }
  return impl_->exchange_step({}, std::nullopt);
}

void GradientSync::exchange(void* stream) {
  impl_->require_may_wait();
  impl_->require_device_memory("exchange() with a stream");
  for (std::size_t i = 0; i < impl_->gradients.size(); ++i)
    if (!impl_->scheduler->marks().is_marked(i)) impl_->mark(i, stream);
  impl_->end_pass_or_step(stream);
}

GradientSync::NoSync::NoSync(GradientSync& sync) : impl_(sync.impl_.get()) {
  impl_->require_none_marked("no_sync()");
  HORO_CHECK(impl_->plan.options().backward_passes_per_step == 1,
             "no_sync() cannot be combined with backward_passes_per_step; choose one");
  ++impl_->no_sync_depth;
  impl_->scheduler->set_held(true);
}

GradientSync::NoSync::~NoSync() {
  impl_->end_pass();
  if (--impl_->no_sync_depth == 0) impl_->scheduler->set_held(false);
}

GradientSync::NoSync GradientSync::no_sync() { return NoSync(*this); }

void GradientSync::set_weight(double weight) {
  impl_->require_weights("set_weight()");
  constexpr double kLargest = 1e300;  // the sum over all ranks must be finite
  HORO_CHECK(
      weight >= 0 && weight <= kLargest,
      fmt::format("set_weight({}): a weight is at least 0 and at most {}", weight, kLargest));
  impl_->require_none_marked("set_weight()");
  impl_->scheduler->hooks().weights->set_own(weight);
}

int GradientSync::join(const std::function<void(const StepReport&)>& after_step, void* stream) {
  impl_->require_may_wait();
  impl_->require_weights("join()");
  impl_->require_none_marked("join()");
  HORO_CHECK(impl_->no_sync_depth == 0, "join() in a no_sync() scope; call it after the scope");
  BucketScheduler& scheduler = *impl_->scheduler;
  const bool is_on_device = impl_->on_device() != nullptr;
  const auto exchange_marked = [&]() -> const StepReport& {
    scheduler.set_held(false);
    impl_->exchange_step(scheduler.marks().unmarked_in_step(),
                         is_on_device ? std::optional(stream) : std::nullopt);
    return scheduler.report();
  };
  if (scheduler.marks().has_earlier_marks()) {
    const StepReport& report = exchange_marked();
    if (after_step) after_step(report);
  }
  plan::StepWeights& weights = *scheduler.hooks().weights;
  weights.set_ended(true);
  while (true) {
    const StepReport& report = exchange_marked();
    if (weights.have_all_ended()) break;
    if (after_step) after_step(report);
  }
  weights.set_ended(false);
  return weights.take_last_with_data();
}

const std::vector<std::size_t>& GradientSync::unused() const { return impl_->unused; }

std::vector<std::vector<std::size_t>> GradientSync::unused_by_rank() const {
  impl_->require_may_wait();
  std::vector<std::vector<std::size_t>> unused;
  coordinator::Entry entry = impl_->make_task(impl_->plan.name() + ".unused_by_rank");
  entry.task = [&](collectives::Collectives& collectives) {
    for (const std::vector<std::byte>& bytes : collectives::gather_all(
             std::as_bytes(std::span(impl_->unused)), collectives, impl_->runtime->topology())) {
      auto& of_rank = unused.emplace_back(bytes.size() / sizeof(std::size_t));
      std::ranges::copy(bytes, std::as_writable_bytes(std::span(of_rank)).begin());
    }
  };
  impl_->runtime->run_task(std::move(entry));
  return unused;
}

void GradientSync::update(std::span<const NamedTensor> gradients) {
  impl_->require_may_wait();
  BucketScheduler& scheduler = *impl_->scheduler;
  if (!scheduler.has_failed()) {
    impl_->require_none_marked("update()");
    HORO_CHECK(impl_->no_sync_depth == 0 && !scheduler.marks().has_earlier_marks(),
               "update() in a step of several passes; call it after the step's last wait()");
  }
  HORO_CHECK(scheduler.captured_steps() == 0,
             "update() while StepGraphs of this GradientSync exist; destroy them first");
  scheduler.drain();
  impl_->wait_for_updates();
  check_together(*impl_->runtime, impl_->update_name(),
                 [&] { check_gradients(gradients, impl_->plan.options()); });
  BucketScheduler::Parts parts =
      impl_->agree(impl_->update_name(), gradients, scheduler.hooks().tuning->found(), nullptr);
  if (parts.hooks.weights != nullptr)
    parts.hooks.weights->set_own(scheduler.hooks().weights->own());
  scheduler.replace(std::move(parts));
  impl_->gradients.assign(gradients.begin(), gradients.end());
  impl_->unused.clear();
  impl_->hold_first_passes();
}

std::size_t GradientSync::bucket_count() const { return impl_->bucket_plan().buckets.size(); }

const std::vector<std::size_t>& GradientSync::bucket(std::size_t bucket) const {
  impl_->require_bucket(bucket);
  return impl_->bucket_plan().buckets[bucket];
}

bool GradientSync::is_in_place(std::size_t bucket) const {
  impl_->require_bucket(bucket);
  return impl_->scheduler->exchange().is_mapped(bucket);
}

bool GradientSync::is_tuning() const { return impl_->scheduler->hooks().tuning->is_searching(); }

WireReport GradientSync::wire_report() const {
  impl_->require_host_memory("wire_report()");
  return impl_->scheduler->communicators().wire_report();
}

CompressionReport GradientSync::compression_report() const {
  impl_->require_host_memory("compression_report()");
  return impl_->scheduler->hooks().compression->report();
}

std::vector<std::byte> GradientSync::save_compression_state() const {
  impl_->require_host_memory("save_compression_state()");
  impl_->require_none_marked("save_compression_state()");
  return impl_->scheduler->hooks().compression->save_state();
}

void GradientSync::load_compression_state(std::span<const std::byte> state) {
  impl_->require_may_wait();
  impl_->require_host_memory("load_compression_state()");
  impl_->require_none_marked("load_compression_state()");
  coordinator::Entry entry = impl_->make_task(impl_->plan.name() + ".load_compression_state");
  entry.task = [&](collectives::Collectives& collectives) {
    impl_->scheduler->hooks().compression->load_state(state, collectives,
                                                      impl_->runtime->topology());
  };
  impl_->runtime->run_task(std::move(entry));
}

}  // namespace horo

#include "horo/gradient_sync_impl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "horo/coordinator/operation_flights.h"
#include "horo/coordinator/plan_agreement.h"
#include "horo/gradient_checks.h"

namespace horo {

GradientSync::Impl::Impl(Context& context, std::span<const NamedTensor> gradients,
                         const GradientSyncOptions& options)
    : runtime_(context.runtime()),
      plan_(*runtime_, options.name.empty() ? runtime_->automatic_name("gradients") : options.name,
            options) {
  check_together(*runtime_, plan_.name(), [&] { check_gradients(gradients, options); });
  plain_.total_weight = runtime_->topology().size;
  plain_.was_exchanged = true;
  tuning_ = plan_.make_tuning(gradients);
  std::unique_ptr<collectives::MessageChannel> channel;
  coordinator::BucketRunner::Parts parts =
      plan_.agree(plan_.name(), gradients, *tuning_, look(), has_peers() ? &channel : nullptr);
  if (has_peers())
    meeting_ = std::make_unique<coordinator::PlanMeeting>(plan_.name(), runtime_->topology(),
                                                          std::move(channel));
  runner_ = std::make_unique<coordinator::BucketRunner>(
      std::move(parts), runtime_->topology().local_rank, options.op,
      [runtime = runtime_.get()](std::size_t bytes, std::size_t tensors) {
        runtime->count_collective(bytes, tensors);
      },
      runtime_->recorder(), plan_.name(), runtime_->topology().set_name(),
      metrics::StepMeter(runtime_->meter(), {plan_.name(), runtime_->topology().set_name(),
                                             runtime_->topology().size}));
  begin_plan(gradients);
  hold_if_needed();
}

GradientSync::Impl::~Impl() {
  if (!runtime_->home().is_elsewhere()) return;
  // The thread is not in a child process of fork(), and MPI is not to be called there.
  (void)runner_.release();
  (void)meeting_.release();
}

void GradientSync::Impl::ready(std::size_t index) {
  require_usable();
  require_registered(index);
  if (order_ != nullptr) order_->note(index);
  HORO_CHECK(runner_->mark(index),
             fmt::format("gradient '{}' was marked ready twice in one pass", name_of(index)));
}

void GradientSync::Impl::ready(std::size_t index, const ConstTensorView& gradient) {
  require_registered(index);
  const TensorView& registered = gradients_[index].tensor;
  HORO_CHECK(gradient.data() == registered.data(),
             fmt::format(
                 "gradient '{}' was registered at {} and is now at {}: keep its memory in place "
                 "(libtorch: zero_grad(/*set_to_none=*/false)), or register it again with update()",
                 name_of(index), fmt::ptr(registered.data()), fmt::ptr(gradient.data())));
  HORO_CHECK(
      gradient.count() == registered.count() && gradient.type() == registered.type(),
      fmt::format("gradient '{}' was registered as {} {} and is now {} {}: register it again "
                  "with update()",
                  name_of(index), horo::name_of(registered.type()), registered.shape().to_string(),
                  horo::name_of(gradient.type()), gradient.shape().to_string()));
  ready(index);
}

void GradientSync::Impl::require_registered(std::size_t index) const {
  HORO_CHECK(
      index < runner_->gradient_count(),
      fmt::format("ready({}): only {} gradients are registered", index, runner_->gradient_count()));
}

const StepReport& GradientSync::Impl::wait() {
  if (runner_->is_held()) return end_pass();
  unused_.clear();
  if (!runner_->are_all_marked()) settle_unmarked();
  return exchange_step();
}

const StepReport& GradientSync::Impl::exchange() {
  runner_->mark_all();
  unused_.clear();
  return runner_->is_held() ? end_pass() : exchange_step();
}

void GradientSync::Impl::begin_no_sync() {
  require_none_marked("no_sync()");
  HORO_CHECK(plan_.options().backward_passes_per_step == 1,
             "no_sync() does not go with backward_passes_per_step; choose one");
  ++no_sync_depth_;
  runner_->set_held(true);
}

void GradientSync::Impl::end_no_sync() {
  end_pass();
  if (--no_sync_depth_ == 0) runner_->set_held(false);
}

void GradientSync::Impl::set_weight(double weight) {
  require_weights("set_weight()");
  HORO_CHECK(weight >= 0 && std::isfinite(weight),
             fmt::format("set_weight({}): a weight is finite and at least 0", weight));
  require_none_marked("set_weight()");
  runner_->treatment()->weights().set_own(weight);
}

int GradientSync::Impl::join(const std::function<void(const StepReport&)>& after_step) {
  require_weights("join()");
  require_none_marked("join()");
  HORO_CHECK(no_sync_depth_ == 0, "join() in a no_sync() scope; call it after the scope");
  if (runner_->is_any_touched()) {
    runner_->set_held(false);
    const StepReport& report = exchange_what_is_there();
    if (after_step) after_step(report);
  }
  coordinator::StepWeights& weights = runner_->treatment()->weights();
  weights.set_ended(true);
  while (true) {
    runner_->set_held(false);
    const StepReport& report = exchange_what_is_there();
    // Of the parts that lie in the treatment, which outlives this.
    if (weights.have_all_ended()) break;
    if (after_step) after_step(report);
  }
  weights.set_ended(false);
  return weights.take_last_with_data();
}

void GradientSync::Impl::update(std::span<const NamedTensor> gradients) {
  if (!runner_->has_failed()) {
    require_none_marked("update()");
    HORO_CHECK(no_sync_depth_ == 0 && !runner_->is_any_touched(),
               "update() in a step of several passes; call it after the step's last wait()");
  }
  meet_to_update();
  check_together(*runtime_, update_name(), [&] { check_gradients(gradients, plan_.options()); });
  std::unique_ptr<tuning::PlanTuning> tuning = plan_.make_tuning(gradients, tuning_->found());
  coordinator::BucketRunner::Parts parts =
      plan_.agree(update_name(), gradients, *tuning, look(), nullptr);
  if (parts.treatment != nullptr && runner_->treatment() != nullptr)
    parts.treatment->weights().set_own(runner_->treatment()->weights().own());
  runner_->replace(std::move(parts));
  tuning_ = std::move(tuning);
  begin_plan(gradients);
  hold_if_needed();
}

// To the flight recorder the meeting is the beginning of the operation that follows.
void GradientSync::Impl::meet_to_update() {
  if (meeting_ == nullptr) return;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = update_name();
  coordinator::OperationFlights(runtime_->recorder(), runtime_->topology().set_name()).open(entry);
  const metrics::Blocked blocked(runtime_->meter().get());
  meeting_->meet(runtime_->transport().wait_policy(), runtime_->settings().stall_warning);
}

std::vector<std::vector<std::size_t>> GradientSync::Impl::gather_unused() {
  std::vector<std::vector<std::size_t>> unused;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = plan_.name() + ".unused_by_rank";
  entry.task = [&](collectives::Collectives& collectives) {
    for (const std::vector<std::byte>& bytes : coordinator::gather_all(
             std::as_bytes(std::span(unused_)), collectives, runtime_->topology())) {
      auto& of_rank = unused.emplace_back(bytes.size() / sizeof(std::size_t));
      std::ranges::copy(bytes, std::as_writable_bytes(std::span(of_rank)).begin());
    }
  };
  runtime_->run_task(std::move(entry));
  return unused;
}

std::vector<std::byte> GradientSync::Impl::save_compression_state() {
  require_none_marked("save_compression_state()");
  return runner_->compressed().save_state();
}

void GradientSync::Impl::load_compression_state(std::span<const std::byte> state) {
  require_none_marked("load_compression_state()");
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = plan_.name() + ".load_compression_state";
  entry.task = [&](collectives::Collectives& collectives) {
    runner_->compressed().load_state(state, collectives, runtime_->topology());
  };
  runtime_->run_task(std::move(entry));
}

std::function<void()> GradientSync::Impl::look() {
  if (!has_peers()) return {};
  return [this] {
    if (meeting_ != nullptr) meeting_->look_while_exchanging();
  };
}

void GradientSync::Impl::begin_plan(std::span<const NamedTensor> gradients) {
  gradients_.assign(gradients.begin(), gradients.end());
  unused_.clear();
  noted_.reset();
  if (plan_.options().reorder) order_ = std::make_unique<coordinator::MarkOrder>(gradients.size());
  set_prelude();
}

void GradientSync::Impl::hold_if_needed() {
  pass_ = 0;
  if (plan_.options().backward_passes_per_step > 1) runner_->set_held(true);
}

const StepReport& GradientSync::Impl::end_pass() {
  runner_->end_pass();
  if (order_ != nullptr) order_->clear();
  if (no_sync_depth_ == 0 && ++pass_ + 1 == plan_.options().backward_passes_per_step)
    runner_->set_held(false);
  return of_pass_;
}

void GradientSync::Impl::settle_unmarked() {
  std::vector<std::size_t> missing = runner_->unmarked();
  std::erase_if(missing, [&](std::size_t i) { return runner_->was_touched(i); });
  if (!missing.empty() && !plan_.options().find_unused) refuse(missing);
  for (const std::size_t i : missing) set_unused(i);
  unused_ = std::move(missing);
  runner_->mark_all();
}

void GradientSync::Impl::set_unused(std::size_t gradient) {
  runner_->set_unused(gradient);
  runner_->treatment()->note_unused(gradient);
}

const StepReport& GradientSync::Impl::exchange_what_is_there() {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (!runner_->was_touched(i)) missing.push_back(i);
  for (const std::size_t i : missing) set_unused(i);
  unused_ = std::move(missing);
  runner_->mark_all();
  return exchange_step();
}

// After runner_->wait() it waits for nobody: what ranks tell each other about a step goes with the
// exchange of the next one.
const StepReport& GradientSync::Impl::exchange_step() {
  await_exchange();
  if (meeting_ != nullptr) meeting_->end_step();
  if (order_ != nullptr)
    noted_ = std::move(order_);
  else if (noted_ != nullptr)
    reorder();
  else if (tuning_->is_searching())
    tune();
  hold_if_needed();
  return runner_->treatment() == nullptr ? plain_ : runner_->report();
}

void GradientSync::Impl::await_exchange() {
  try {
    runner_->wait();
  } catch (const ShutdownError& error) {
    if (meeting_ == nullptr) throw;
    const std::string text = fmt::format(
        "gradients '{}': {} after {} steps, {} exchanges one more; call GradientSync::join() where "
        "ranks have data for different numbers of steps",
        plan_.name(), error.what(), meeting_->steps(),
        runtime_->topology().describe(runtime_->topology().rank));
    runtime_->recorder().note_error(text);
    throw ShutdownError(text);
  }
}

void GradientSync::Impl::meet(collectives::Collectives& collectives) {
  if (noted_ != nullptr)
    packing_ = noted_->agree(collectives);
  else if (tuning_->is_searching() && tuning_->meet(collectives))
    runtime_->count_collective(sizeof(double), 1);
}

void GradientSync::Impl::set_prelude() {
  if (order_ != nullptr || noted_ != nullptr || tuning_->is_searching())
    runner_->set_prelude([this](collectives::Collectives& own) { meet(own); });
  else
    runner_->set_prelude(nullptr);
}

void GradientSync::Impl::reorder() {
  repack(packing_);
  noted_.reset();
  tuning_->begin_step();
  set_prelude();
}

void GradientSync::Impl::tune() {
  const coordinator::StepTreatment* treatment = runner_->treatment();
  const tuning::PlanChoice before = tuning_->choice();
  tuning_->end_step(treatment == nullptr || !treatment->is_skipped());
  const tuning::PlanChoice& choice = tuning_->choice();
  if (choice.algorithm != before.algorithm) runner_->swap_communicators();
  runner_->communicator().set_rings(choice.ring_segment_bytes, choice.wire);
  if (choice.bucket_bytes != before.bucket_bytes)
    repack(coordinator::packing_order(runner_->plan()));
  tuning_->begin_step();
  if (tuning_->is_searching()) return;
  runner_->drop_spare();
  set_prelude();
}

void GradientSync::Impl::repack(std::span<const std::size_t> order) {
  const coordinator::BucketPlan plan =
      plan_.pack(gradients_, order, tuning_->choice().bucket_bytes);
  if (plan.buckets == runner_->plan().buckets) return;
  coordinator::CompressedPlan compressed(gradients_, plan, plan_.options().compression,
                                         runtime_->topology());
  runner_->repack(plan, std::move(compressed));
}

void GradientSync::Impl::require_weights(std::string_view what) const {
  HORO_CHECK(plan_.options().weighted, fmt::format("{} needs GradientSyncOptions::weighted", what));
}

void GradientSync::Impl::require_none_marked(std::string_view what) const {
  HORO_CHECK(!runner_->is_any_marked(),
             fmt::format("{} between ready() and wait(); call it after wait()", what));
}

void GradientSync::Impl::refuse(const std::vector<std::size_t>& missing) const {
  std::vector<std::string_view> names;
  for (std::size_t i : missing)
    if (names.size() < 6) names.push_back(name_of(i));
  const std::string text =
      fmt::format("wait() before ready() of {} of {} gradients: {}{}", missing.size(),
                  gradients_.size(), fmt::join(names, ", "), missing.size() > 6 ? ", ..." : "");
  throw InvalidArgument(text);
}

}  // namespace horo

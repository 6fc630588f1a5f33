#include "ops/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "horo/horo.h"
#include "ops/data/data_loader.h"
#include "ops/train/evaluation.h"
#include "ops/train/same_options.h"
#include "ops/train/step/model_state.h"

namespace horo::ops {
namespace {

// Splits a batch into `parts` runs of consecutive samples. Sizes differ by at most one, larger
// parts first; parts are empty if there are fewer samples than parts.
std::vector<Batch> split_batch(Batch batch, std::size_t parts) {
  std::vector<Batch> result;
  if (parts == 1) {
    result.push_back(std::move(batch));
    return result;
  }
  const std::size_t samples = batch.rows();
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t count = samples / parts + (part < samples % parts ? 1 : 0);
    result.push_back(rows_of(batch, first, count));
    first += count;
  }
  return result;
}

SamplerOptions sampler_options(const Dataset& dataset, const TrainerOptions& options) {
  return {.dataset_size = dataset.size(),
          .global_batch = options.global_batch,
          .seed = options.seed,
          .is_shuffled = options.is_shuffled,
          .last_batch = options.last_batch,
          .weights = options.sample_weights};
}

ProgressOptions progress_options(const Context& context, const TrainerOptions& options) {
  return context.rank() == 0 ? options.progress : ProgressOptions{};
}

std::uint64_t count_steps(const GlobalSampler& sampler, const TrainerOptions& options) {
  return options.steps > 0 ? options.steps : options.epochs * sampler.steps_per_epoch();
}

// With `all`, waits for the outcomes of all steps.
std::vector<StepOutcome> outcomes_of(Replica& replica, bool all) {
  std::vector<StepOutcome> outcomes;
  while (auto outcome = replica.next_outcome(all)) outcomes.push_back(*std::move(outcome));
  return outcomes;
}

// The host measures the wait for data and the whole step. Only a device can measure its phases.
StepTimes with_phases_of(StepTimes host, const StepTimes& device) {
  if (device.total_ms == 0) return host;
  for (const StepPhase phase : {StepPhase::kForward, StepPhase::kBackward,
                                StepPhase::kExposedCommunication, StepPhase::kOptimizer})
    host[phase] = device[phase];
  return host;
}

}  // namespace

Trainer::Trainer(Context& context, Layer& model, Optimizer& optimizer, const Dataset& train_set,
                 const Dataset& test_set, const TrainerOptions& options)
    : context_(context),
      model_(model),
      optimizer_(optimizer),
      train_set_(train_set),
      test_set_(test_set),
      options_(options),
      sampler_(sampler_options(train_set, options), context.rank(), context.size()),
      test_sampler_(evaluation_sampler(context, test_set, options.evaluation_batch)),
      balance_(context, options.shares, sampler_, test_sampler_, options.accumulate),
      display_(progress_options(context, options)),
      run_{.context = context,
           .model = model,
           .optimizer = optimizer,
           .sampler = sampler_,
           .display = display_,
           .options = options_,
           .timer = timer_,
           .device_timer = device_timer_,
           .total_steps = count_steps(sampler_, options)},
      profile_(context, model, options.profile),
      phase_scopes_(context),
      control_messages_(context) {
  check_options(options, context.size(), train_set, test_set);
  if (options.device.type != DataType::kFloat16) return;
  loss_scaling_.emplace(options.device.loss_scale);
  run_.loss_scaling = &*loss_scaling_;
}

TrainReport Trainer::run() {
  TrainReport report{.ranks = context_.size(), .global_batch = options_.global_batch};
  std::vector<std::string> options = describe_options(options_, train_set_, test_set_);
  options.push_back("optimizer = " + optimizer_.describe());
  require_same_options(context_, options);
  for (const auto& callback : options_.callbacks) callback->restore(run_);
  HORO_CHECK(run_.steps <= run_.total_steps,
             fmt::format("training resumes after step {}, but ends after {} steps; train for more "
                         "epochs or steps",
                         run_.steps, run_.total_steps));
  first_step_ = outcomes_ = run_.steps;
  const ExchangeOptions exchange{.op = options_.gradient_op,
                                 .compression = options_.compression,
                                 .wire = options_.wire,
                                 .passes = options_.accumulate,
                                 .clip_norm = options_.clip_norm,
                                 .check_finite = options_.max_skipped > 0,
                                 .shard_optimizer = options_.shard_optimizer,
                                 .local_steps = options_.local_steps,
                                 .last_step = run_.total_steps,
                                 .loss_scaling = run_.loss_scaling};
  report.optimizer_state.whole_bytes = optimizer_.state_bytes();
  Replica replica(context_, model_, optimizer_, *options_.loss, options_.device, exchange,
                  [this](StepPhase phase) { enter(phase); });
  run_.step = &replica.step();
  run_.sync = &replica.sync();
  run_.method = replica.method();
  for (const auto& callback : options_.callbacks) callback->start(run_);
  train_steps(replica, report);
  complete(replica, report);
  for (const auto& callback : options_.callbacks) callback->finish(run_, report);
  run_.sync = nullptr;
  run_.method = nullptr;
  run_.step = nullptr;
  return report;
}

// Evaluation and the end of training need the outcome of every step. Elsewhere outcomes are taken
// as they become known, so that a device can run ahead of the host.
void Trainer::train_steps(Replica& replica, TrainReport& report) {
  DataLoader loader(train_set_, sampler_, run_.steps, run_.total_steps,
                    replica.for_upload(options_.loader));
  DataLoader test_loader(test_set_, test_sampler_, 0, 0, evaluation_loader_options(replica));
  run_.loader = &loader;
  if (run_.steps == run_.total_steps) evaluate_model(replica, test_loader, report);
  while (run_.steps < run_.total_steps && !is_stopped_) {
    profile_.begin_step(run_.steps + 1);
    control_messages_.begin_step();
    timer_.begin_step(StepPhase::kDataWait);
    phase_scopes_.enter(StepPhase::kDataWait);
    Batch batch = loader.next().value();
    const std::size_t rows = batch.rows();
    train_step(std::move(batch), replica);
    ++run_.steps;
    const bool is_evaluated = is_evaluated_after(run_.steps);
    const std::vector<StepOutcome> outcomes = outcomes_of(replica, is_evaluated);
    timer_.end_step();
    phase_scopes_.leave();
    control_messages_.end_step();
    balance_.add_step(rows, timer_.latest(), options_.device.device != nullptr);
    timer_.resume_step(StepPhase::kLogging);
    profile_.enter(StepPhase::kLogging);
    for (const StepOutcome& outcome : outcomes) take(outcome, report);
    timer_.end_step();
    if (run_.steps < run_.total_steps)
      if (const auto change = balance_.after_step(run_.steps, loader)) display_.print(*change);
    if (is_evaluated && !is_stopped_) {
      profile_.enter_evaluation();
      evaluate_model(replica, test_loader, report);
    }
    run_.is_ending = is_stopped_ || run_.steps == run_.total_steps;
    timer_.resume_step(StepPhase::kLogging);
    for (const auto& callback : options_.callbacks) {
      timer_.enter(callback->phase());
      profile_.enter(callback->phase());
      callback->after_step(run_);
    }
    timer_.end_step();
    if (const auto profiled = profile_.end_step(run_.steps)) display_.print(*profiled);
  }
  for (const StepOutcome& outcome : outcomes_of(replica, true)) take(outcome, report);
  if (const auto profiled = profile_.finish()) display_.print(*profiled);
  for (const auto& callback : options_.callbacks) callback->after_training(run_);
  run_.loader = nullptr;
  report.loader = loader.report();
  report.bad_samples = report.loader.reading.bad_samples + test_loader.report().reading.bad_samples;
}

bool Trainer::is_evaluated_after(std::uint64_t steps) const {
  const std::uint64_t every =
      options_.evaluate_every > 0 ? options_.evaluate_every : sampler_.steps_per_epoch();
  return steps % every == 0 || steps == run_.total_steps;
}

StepRequests Trainer::requests() {
  StepRequests all;
  for (const auto& callback : options_.callbacks) {
    const StepRequests own = callback->requests();
    all.stop = std::max(all.stop, own.stop);
    all.save = std::max(all.save, own.save);
    all.report = std::max(all.report, own.report);
  }
  return all;
}

void Trainer::train_step(Batch batch, Replica& replica) {
  timer_.enter(StepPhase::kForward);  // on a device, begin_step() may wait for an earlier step
  // Dropout masks depend on the seed, the global step number and the global index of the sample,
  // and therefore not on the number of ranks.
  const Pass pass{.training = true, .seed = options_.seed, .step = sampler_.count_of(batch.where)};
  // Ranks may have different numbers of samples. If every rank divides its sum by global batch /
  // ranks, each sample has the weight 1 / global batch after the average over ranks.
  const double normaliser =
      static_cast<double>(sampler_.global_count(batch.where.step)) / context_.size();
  std::optional<float> rate;
  if (options_.learning_rate)
    rate = static_cast<float>(learning_rate_at(*options_.learning_rate, pass.step));
  replica.begin_step(pass.step, rate, requests());
  std::vector<Batch> parts = split_batch(std::move(batch), options_.accumulate);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    replica.run_pass(std::move(parts[part]), pass, normaliser);
    if (part + 1 < parts.size()) replica.end_pass();
  }
  replica.end_step();
}

void Trainer::enter(StepPhase phase) {
  timer_.enter(phase);
  profile_.enter(phase);
  phase_scopes_.enter(phase);
}

// Outcomes are equal on all ranks, so all ranks skip the step, stop, or fail.
void Trainer::take(const StepOutcome& outcome, TrainReport& report) {
  report.losses.push_back(outcome.loss);
  if (outcome.times) {
    device_timer_.add(*outcome.times);
    balance_.add_device_times(*outcome.times);
  }
  clipped_ += outcome.was_clipped ? 1 : 0;
  const std::uint64_t step = ++outcomes_;
  judge(step, outcome);
  is_stopped_ |= outcome.requests.stop > 0;
  show_progress(step, outcome.loss);
  for (const auto& callback : options_.callbacks) callback->on_outcome(run_, step, outcome);
}

// With a loss scale, gradients that are too large for float16 are usual: the scale falls until they
// fit. Below 1 they cannot come from the scale.
void Trainer::judge(std::uint64_t step, const StepOutcome& outcome) {
  const bool is_overflow =
      !outcome.why_skipped.empty() && std::isfinite(outcome.loss) && outcome.loss_scale >= 1;
  if (is_overflow) {
    ++skipped_;
    return display_.print(
        fmt::format("step {}: {}; the step is skipped, and the loss scale is {:g}", step,
                    outcome.why_skipped, outcome.loss_scale));
  }
  const bool may_skip = options_.max_skipped > 0;
  if (may_skip && !outcome.why_skipped.empty()) {
    note_skipped(step, outcome.why_skipped);
  } else {
    skipped_in_a_row_ = 0;
    if (!std::isfinite(outcome.loss))
      throw Error(fmt::format(
          "the loss of step {} is not a finite number: training has diverged; try a lower learning "
          "rate",
          step));
    if (!outcome.why_skipped.empty())
      throw Error(fmt::format("step {}: {}: training has diverged; try a lower learning rate", step,
                              outcome.why_skipped));
  }
}

void Trainer::note_skipped(std::uint64_t step, const std::string& why) {
  ++skipped_;
  const std::string what = fmt::format("step {}: {}", step, why);
  if (++skipped_in_a_row_ > options_.max_skipped)
    throw Error(
        fmt::format("{}, and {} steps before it were skipped: training has diverged; try a "
                    "lower learning rate",
                    what, skipped_in_a_row_ - 1));
  display_.print(what + "; the step is skipped");
}

void Trainer::show_progress(std::uint64_t steps_done, float loss) {
  const EpochStep where = sampler_.locate(steps_done - 1);
  const double seconds_per_step =
      timer_.total_ms() / 1000 / static_cast<double>(timer_.step_count());
  display_.update(
      {.epoch = where.epoch,
       .epochs = (run_.total_steps - 1) / sampler_.steps_per_epoch() + 1,
       .step = where.step + 1,
       .steps = std::min(sampler_.steps_per_epoch(),
                         run_.total_steps - where.epoch * sampler_.steps_per_epoch()),
       .loss = static_cast<double>(loss),
       .samples_per_second = static_cast<double>(options_.global_batch) / seconds_per_step,
       .seconds_left = seconds_per_step * static_cast<double>(run_.total_steps - steps_done)});
}

// Evaluation uses the images without augmentation.
DataLoaderOptions Trainer::evaluation_loader_options(Replica& replica) const {
  DataLoaderOptions options = replica.for_upload(options_.loader);
  options.augmentation = {};
  options.pixel_augmentation = {};
  options.crop = {};
  return options;
}

void Trainer::evaluate_model(Replica& replica, DataLoader& test_loader, TrainReport& report) {
  const horo::TraceScope phase = context_.phase("evaluation");
  replica.average_buffers();
  test_loader.restart(0, test_sampler_.steps_per_epoch());
  const Evaluation evaluation = evaluate(
      context_, [&](Batch batch) { return replica.score(std::move(batch)); }, test_loader);
  report.test_accuracy = evaluation.accuracy();
  report.test_loss = evaluation.loss();
  const std::string when = options_.evaluate_every > 0
                               ? fmt::format("step {}", run_.steps)
                               : fmt::format("epoch {}", sampler_.locate(run_.steps - 1).epoch + 1);
  if (options_.loss->has_classes())
    display_.print(fmt::format("{}: test accuracy {:.2f} % ({} of {}), test loss {:.4f}", when,
                               100 * evaluation.accuracy(), evaluation.correct, evaluation.count,
                               evaluation.loss()));
  else
    display_.print(fmt::format("{}: test loss {:.6f}", when, evaluation.loss()));
  for (const auto& callback : options_.callbacks)
    is_stopped_ |= callback->after_evaluation(run_, evaluation);
}

void Trainer::complete(Replica& replica, TrainReport& report) {
  report.optimizer_state.bytes = optimizer_.state_bytes();
  replica.bring_back();
  if (loss_scaling_) report.loss_scale = loss_scaling_->value().scale;
  report.compression = replica.compression();
  report.steps = timer_.step_count();
  report.first_step = first_step_;
  report.was_stopped = run_.steps < run_.total_steps;
  if (run_.steps > 0) report.epochs = sampler_.locate(run_.steps - 1).epoch + 1;
  report.batch_shares = balance_.counts();
  report.clipped_steps = clipped_;
  report.skipped_steps = skipped_;
  if (report.steps > 0)
    report.samples_per_second =
        static_cast<double>(options_.global_batch * report.steps) / (timer_.total_ms() / 1000);
  report.median_step = with_phases_of(timer_.medians(), device_timer_.medians());
  report.mean_step = with_phases_of(timer_.means(), device_timer_.means());
  report.param_hash = agreed_parameter_hash(context_, model_.parameters());
  // The maximum over ranks: the rank with the most messages is the bottleneck.
  std::vector<std::int64_t> messages{static_cast<std::int64_t>(control_messages_.messages())};
  context_.allreduce(TensorView(messages),
                     {.name = "train.control_messages", .op = ReduceOp::kMax});
  std::vector<std::int64_t> bad{static_cast<std::int64_t>(report.bad_samples)};
  context_.allreduce(TensorView(bad), {.name = "train.bad_samples", .op = ReduceOp::kSum});
  report.bad_samples = static_cast<std::uint64_t>(bad[0]);
  report.control_messages_per_step =
      static_cast<double>(messages[0]) /
      static_cast<double>(std::max<std::uint64_t>(1, control_messages_.steps()));
  display_.print(describe(report.mean_step));
  if (report.bad_samples > 0)
    display_.print(
        fmt::format("{} samples could not be read and were skipped, counted in every "
                    "epoch",
                    report.bad_samples));
  if (options_.compression.kind != Compression::Kind::kNone)
    display_.print(fmt::format("compression: {:.1f} times fewer bytes, {:.1f} % left out of a step",
                               report.compression.compression_rate(),
                               100 * report.compression.relative_error()));
}

}  // namespace horo::ops

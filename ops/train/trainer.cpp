#include "ops/train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/nn/cross_entropy_loss.h"
#include "ops/train/broadcast_state.h"
#include "ops/train/evaluation.h"
#include "ops/train/micro_batches.h"
#include "ops/train/parameter_hash.h"

namespace horo::ops {

namespace {

SamplerOptions sampler_options(const Dataset& dataset, const TrainerOptions& options) {
  return {
      .dataset_size = dataset.size(), .global_batch = options.global_batch, .seed = options.seed};
}

ProgressOptions progress_options(const Context& context, const TrainerOptions& options) {
  return context.rank() == 0 ? options.progress : ProgressOptions{};
}

std::uint64_t count_steps(const GlobalSampler& sampler, const TrainerOptions& options) {
  const std::uint64_t steps = options.epochs * sampler.steps_per_epoch();
  return options.max_steps > 0 ? std::min(steps, options.max_steps) : steps;
}

}  // namespace

Trainer::Trainer(Context& context, Layer& model, Sgd& optimizer, const Dataset& train_set,
                 const Dataset& test_set, const TrainerOptions& options)
    : context_(context),
      model_(model),
      optimizer_(optimizer),
      train_set_(train_set),
      test_set_(test_set),
      options_(options),
      sampler_(sampler_options(train_set, options), context.rank(), context.size()),
      total_steps_(count_steps(sampler_, options)),
      marks_(context),
      control_messages_(context),
      display_(progress_options(context, options)) {
  const auto ranks = static_cast<std::size_t>(context.size());
  HORO_CHECK(
      options.global_batch >= ranks,
      fmt::format("a global batch of {} leaves some of the {} ranks without a sample; choose a "
                  "global batch of at least {}, or fewer ranks",
                  options.global_batch, ranks, ranks));
  HORO_CHECK(options.accumulate > 0 && options.global_batch >= ranks * options.accumulate,
             fmt::format("a global batch of {} cannot be cut into {} passes on each of {} ranks; "
                         "accumulate over fewer",
                         options.global_batch, options.accumulate, ranks));
  HORO_CHECK(total_steps_ > 0, "training for 0 epochs; choose at least 1");
  HORO_CHECK(
      train_set.sample_shape() == test_set.sample_shape(),
      fmt::format("training samples have shape {}, test samples {}; take both from one set",
                  train_set.sample_shape().to_string(), test_set.sample_shape().to_string()));
}

TrainReport Trainer::run() {
  TrainReport report{.ranks = context_.size(), .global_batch = options_.global_batch};
  broadcast_state(context_, model_, optimizer_);
  train_epochs(report);
  complete(report);
  return report;
}

void Trainer::train_epochs(TrainReport& report) {
  GradientExchange exchange(context_, model_.parameters(),
                            {.op = options_.gradient_op,
                             .compression = options_.compression,
                             .passes = options_.accumulate,
                             .clip_norm = options_.clip_norm,
                             .check_finite = options_.max_skipped > 0});
  DataLoader loader(train_set_, sampler_, 0, total_steps_, options_.loader);
  for (std::uint64_t step = 0; step < total_steps_; ++step) {
    control_messages_.begin_step();
    timer_.begin_step(Phase::kDataWait);
    marks_.enter(Phase::kDataWait);
    Batch batch = loader.next().value();
    const EpochStep where = batch.where;
    const float loss = train_step(std::move(batch), exchange);
    timer_.end_step();
    marks_.leave();
    control_messages_.end_step();
    training_ms_ += timer_.latest().total_ms;
    report.losses.push_back(loss);
    if (skipped_in_a_row_ == 0) check_loss(loss);
    show_progress(where, loss);
    if (where.step + 1 == sampler_.steps_per_epoch() || step + 1 == total_steps_)
      finish_epoch(where, report);
  }
  report.compression = exchange.compression_report().total;
}

float Trainer::train_step(Batch batch, GradientExchange& exchange) {
  std::vector<Batch> parts = split_batch(std::move(batch), options_.accumulate);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    forward_backward(std::move(parts[part]), exchange);
    if (part + 1 < parts.size()) exchange.end_pass();
  }
  enter(Phase::kExposedCommunication);
  const float average_loss = exchange.wait();
  enter(Phase::kOptimizer);
  if (options_.learning_rate)
    optimizer_.set_learning_rate(
        static_cast<float>(learning_rate_at(*options_.learning_rate, timer_.step_count())));
  if (!is_skipped(exchange.report())) optimizer_.step();
  return average_loss;
}

void Trainer::forward_backward(Batch batch, GradientExchange& exchange) {
  enter(Phase::kForward);
  const Pass pass{.training = true,
                  .seed = options_.seed,
                  .step = sampler_.count_of(batch.where),
                  .samples = batch.samples};
  Tensor logits = model_.forward(std::move(batch.inputs), pass);
  // Ranks may hold different numbers of samples: each sample weighs 1 / global batch after the
  // average over ranks if every rank divides its sum by global batch / ranks.
  const double normaliser =
      static_cast<double>(sampler_.global_count(batch.where.step)) / context_.size();
  CrossEntropyLoss loss = cross_entropy_loss(std::move(logits), batch.labels, normaliser);
  enter(Phase::kBackward);
  exchange.loss_ready(loss.value);
  model_.backward(std::move(loss.gradient),
                  [&](const Parameter& parameter) { exchange.gradient_ready(parameter); });
}

void Trainer::enter(Phase phase) {
  timer_.enter(phase);
  marks_.enter(phase);
}

// The report is the same on all ranks, so all of them skip, or stop.
bool Trainer::is_skipped(const StepReport& step) {
  clipped_ += step.was_clipped ? 1 : 0;
  if (options_.max_skipped == 0 || step.is_finite) {
    skipped_in_a_row_ = 0;
    return false;
  }
  ++skipped_;
  const std::string what = fmt::format("step {}: {}", timer_.step_count() + 1,
                                       step.non_finite ? step.non_finite->describe() : "");
  if (++skipped_in_a_row_ > options_.max_skipped)
    throw Error(
        fmt::format("{}, and {} steps before it were skipped: training has diverged; try a "
                    "lower learning rate",
                    what, skipped_in_a_row_ - 1));
  display_.print(what + "; the step is skipped");
  return true;
}

// The loss is the same on all ranks, so all of them stop here.
void Trainer::check_loss(float loss) const {
  if (!std::isfinite(loss))
    throw Error(
        fmt::format("the loss of step {} is not a finite number: training has diverged; try a "
                    "lower learning rate",
                    timer_.step_count()));
}

void Trainer::show_progress(const EpochStep& where, float loss) {
  const auto done = static_cast<double>(timer_.step_count());
  const double seconds_per_step = training_ms_ / 1000 / done;
  display_.update(
      {.epoch = where.epoch,
       .epochs = (total_steps_ - 1) / sampler_.steps_per_epoch() + 1,
       .step = where.step + 1,
       .steps = std::min(sampler_.steps_per_epoch(),
                         total_steps_ - where.epoch * sampler_.steps_per_epoch()),
       .loss = static_cast<double>(loss),
       .samples_per_second = static_cast<double>(options_.global_batch) / seconds_per_step,
       .seconds_left = seconds_per_step * (static_cast<double>(total_steps_) - done)});
}

void Trainer::finish_epoch(const EpochStep& where, TrainReport& report) {
  const horo::Phase phase = context_.phase("evaluation");
  average_buffers();
  EvaluationOptions as_it_is{.global_batch = options_.evaluation_batch, .loader = options_.loader};
  as_it_is.loader.augmentation = {};
  const Evaluation evaluation = evaluate(context_, model_, test_set_, as_it_is);
  report.epochs = where.epoch + 1;
  report.test_accuracy = evaluation.accuracy();
  display_.print(fmt::format("epoch {}: test accuracy {:.2f} % ({} of {})", report.epochs,
                             100 * evaluation.accuracy(), evaluation.correct, evaluation.count));
}

// Statistics of the ranks' own batches drift apart; evaluation needs one model.
void Trainer::average_buffers() {
  std::vector<NamedTensor> buffers;
  for (Parameter* buffer : model_.buffers())
    buffers.push_back({"train.buffer." + buffer->name, buffer->value.view()});
  if (!buffers.empty()) context_.allreduce_group(buffers, {.name = "train.buffers"});
}

void Trainer::complete(TrainReport& report) {
  report.steps = timer_.step_count();
  report.clipped_steps = clipped_;
  report.skipped_steps = skipped_;
  report.samples_per_second =
      static_cast<double>(options_.global_batch * report.steps) / (training_ms_ / 1000);
  report.median_step = timer_.medians();
  report.mean_step = timer_.means();
  report.param_hash = agreed_parameter_hash(context_, model_.parameters());
  std::vector<std::int64_t> messages{static_cast<std::int64_t>(control_messages_.messages())};
  context_.allreduce(TensorView(messages),
                     {.name = "train.control_messages", .op = ReduceOp::kMax});
  report.control_messages_per_step =
      static_cast<double>(messages[0]) /
      static_cast<double>(std::max<std::uint64_t>(1, control_messages_.steps()));
  display_.print(describe(report.mean_step));
  if (options_.compression.kind != Compression::Kind::kNone)
    display_.print(fmt::format("compression: {:.1f} times fewer bytes, {:.1f} % left out of a step",
                               report.compression.compression_rate(),
                               100 * report.compression.relative_error()));
}

}  // namespace horo::ops

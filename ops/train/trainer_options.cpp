#include "ops/train/trainer_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

namespace horo::ops {
namespace {

std::string describe(const SampleForm& form) {
  return fmt::format("{} {}", name_of(form.type), form.shape.to_string());
}

std::string describe_schedule(const std::optional<LearningRateSchedule>& schedule) {
  if (!schedule) return "the optimizer's";
  const auto& [decay, base_rate, warm_up_steps, start_rate, milestones, step_factor, total_steps,
               final_rate, power] = *schedule;
  return fmt::format(
      "{{decay {}, base_rate {}, warm_up_steps {}, start_rate {}, milestones [{}], step_factor {}, "
      "total_steps {}, final_rate {}, power {}}}",
      static_cast<int>(decay), base_rate, warm_up_steps, start_rate, fmt::join(milestones, ", "),
      step_factor, total_steps, final_rate, power);
}

}  // namespace

void check_options(const TrainerOptions& options, int ranks, const Dataset& train_set,
                   const Dataset& test_set) {
  const auto count = static_cast<std::size_t>(ranks);
  HORO_CHECK(
      options.global_batch >= count,
      fmt::format("a global batch of {} leaves some of the {} ranks without a sample; choose a "
                  "global batch of at least {}, or fewer ranks",
                  options.global_batch, ranks, ranks));
  HORO_CHECK(options.accumulate > 0 && options.global_batch >= count * options.accumulate,
             fmt::format("a global batch of {} cannot be cut into {} passes on each of {} ranks; "
                         "accumulate over fewer",
                         options.global_batch, options.accumulate, ranks));
  HORO_CHECK(options.local_steps.count == 0 ||
                 (options.shares.weights.empty() && !options.shares.automatic),
             "unequal parts of a batch need the gradients of all ranks in each step; leave the "
             "shares or the local steps out");
  HORO_CHECK(options.gradient_op == ReduceOp::kAverage ||
                 (options.shares.weights.empty() && !options.shares.automatic),
             "unequal parts of a batch are for averaged gradients; leave the shares or Adasum out");
  HORO_CHECK(!options.shares.automatic || !options.device.graph,
             "the times of the phases of a graph cannot be measured, so its ranks cannot have "
             "automatic shares; turn `graph` off or give weights");
  HORO_CHECK(options.last_batch != LastBatch::kPartial,
             "in training, the last step of an epoch is dropped or padded; choose kDrop or kPad");
  HORO_CHECK(options.device.device != nullptr || options.device.type != DataType::kFloat16,
             "training in float16 needs a device; compute in float32 on the CPU");
  HORO_CHECK(!options.device.graph || options.loader.bad_samples == BadSamples::kFatal,
             "steps as graphs have fixed rows, so bad samples cannot be skipped; turn `graph` off");
  HORO_CHECK(options.epochs > 0 || options.steps > 0,
             "training for 0 epochs and 0 steps; choose at least 1 of either");
  HORO_CHECK(
      train_set.input() == test_set.input() && train_set.target() == test_set.target(),
      fmt::format("training samples have inputs {} and targets {}, test samples {} and {}; take "
                  "both from one set",
                  describe(train_set.input()), describe(train_set.target()),
                  describe(test_set.input()), describe(test_set.target())));
  HORO_CHECK(options.loss != nullptr, "no loss is set; choose one, such as CrossEntropy");
}

std::vector<std::string> describe_options(const TrainerOptions& options, const Dataset& train_set,
                                          const Dataset& test_set) {
  // The structured binding names every field, so that a new field does not compile until it is
  // handled here. The gradient exchange compares `compression` and `wire`. `loader` and `progress`
  // may differ.
  const auto& [epochs, global_batch, shares, steps, is_shuffled, sample_weights, last_batch,
               learning_rate, gradient_op, seed, evaluate_every, evaluation_batch, loader,
               compression, wire, accumulate, clip_norm, max_skipped, shard_optimizer, local_steps,
               loss, device, profile, progress, callbacks] = options;
  return {fmt::format("epochs = {}", epochs),
          fmt::format("global_batch = {}", global_batch),
          fmt::format("shares.weights = [{}]", fmt::join(shares.weights, ", ")),
          fmt::format("shares.automatic = {}", shares.automatic),
          fmt::format("shares.every = {}", shares.every),
          fmt::format("steps = {}", steps),
          fmt::format("is_shuffled = {}", is_shuffled),
          sample_weights ? fmt::format("sample_weights = {:016x}", sample_weights->hash())
                         : "sample_weights are unset",
          fmt::format("last_batch = {}", static_cast<int>(last_batch)),
          fmt::format("learning_rate = {}", describe_schedule(learning_rate)),
          fmt::format("gradient_op = {}", name_of(gradient_op)),
          fmt::format("seed = {}", seed),
          fmt::format("evaluate_every = {}", evaluate_every),
          fmt::format("evaluation_batch = {}", evaluation_batch),
          fmt::format("accumulate = {}", accumulate),
          clip_norm ? fmt::format("clip_norm = {}", *clip_norm) : "clip_norm is unset",
          fmt::format("max_skipped = {}", max_skipped),
          fmt::format("shard_optimizer = {}", shard_optimizer),
          "local_steps = " + describe(local_steps),
          fmt::format("loss = {}", loss->describe()),
          device.device == nullptr ? "device is unset" : "device is set",
          fmt::format("device.type = {}", name_of(device.type)),
          fmt::format("device.loss_scale = {}, {}", device.loss_scale.initial,
                      device.loss_scale.growth_interval),
          fmt::format("device.graph = {}", device.graph),
          fmt::format("profile = {} to {}", profile.first, profile.last),
          fmt::format("profile.trace = {}", profile.trace.string()),
          fmt::format("profile.perf_control = {}", profile.perf_control.string()),
          fmt::format("callbacks = {}", callbacks.size()),
          fmt::format("training samples = {}", train_set.size()),
          fmt::format("test samples = {}", test_set.size())};
}

}  // namespace horo::ops

// On the stand-in, whose ranks are threads.
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/data/crop_and_flip.h"
#include "ops/data/datasets/digits_dataset.h"
#include "tests/ops/train/device_training.h"
#include "tests/ops/train/requested_stop.h"
#include "tests/support/sanitizer.h"

namespace horo::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename Work>
void on_ranks(int ranks, Work work) {
  testing::run_ranks(ranks, [&](Context& context) {
    const auto device = std::make_shared<device::HostDevice>(
        device::HostDevice::Options{.max_delay = std::chrono::microseconds(20),
                                    .seed = static_cast<std::uint64_t>(context.rank()) + 1});
    work(*device, context);
  });
}

/// Returns the numbers of ranks to test in this build. The sanitizers slow the layers' loops down.
std::vector<int> tested_ranks(std::vector<int> counts) {
  return kHasSanitizer ? std::vector{2} : counts;
}

TEST(DeviceTrainer, MatchesTheHost) {
  for (const int ranks : tested_ranks({1, 2, 4})) on_ranks(ranks, compare_with_host);
}

TEST(DeviceTrainer, PerceptronAndResNetMatchTheHost) {
  for (const int ranks : tested_ranks({1, 2, 4}))
    on_ranks(ranks, [](device::Device& device, Context& context) {
      compare_other_networks_with_host(device, context, 0.03);
    });
}

TEST(DeviceTrainer, AdamWMatchesTheHost) {
  for (const int ranks : tested_ranks({1, 2, 3})) on_ranks(ranks, compare_adamw_with_host);
}

TEST(DeviceTrainer, AccumulatesAsTheHost) {
  for (const int ranks : tested_ranks({1, 2})) on_ranks(ranks, compare_accumulation_with_host);
}

TEST(DeviceTrainer, LossesOfAllKindsMatchTheHost) {
  for (const int ranks : tested_ranks({1, 2, 3})) on_ranks(ranks, compare_losses_with_host);
}

TEST(DeviceTrainer, GraphsMatchPlainSteps) {
  for (const int ranks : tested_ranks({1, 2, 3})) on_ranks(ranks, compare_graphs_with_plain_steps);
}

// The pixels are normalised where the model computes.
TEST(DeviceTrainer, PixelsTrainAsFloats) {
  on_ranks(2, [](device::Device& device, Context& context) {
    set_compute_threads(1);
    const DigitsDataset train_set({.size = 64}), test_set({.split = Split::kTest, .size = 20});
    const CropAndFlip crop(
        train_set.input().shape,
        {.padding = 2, .padding_pixels = padding_pixels(train_set.pixel_scales())});
    const auto train = [&](device::Device* where, bool as_pixels, const char* augmented = "") {
      const auto model = make_mlp({.input = {1, 28, 28}, .hidden = {12}, .classes = 10, .seed = 2});
      Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
      TrainerOptions options{.epochs = 2, .global_batch = 24};
      options.last_batch = LastBatch::kPad;
      options.loader.as_pixels = as_pixels;
      if (augmented == std::string("by workers")) options.loader.pixel_augmentation = crop;
      if (augmented == std::string("by the step"))
        options.loader.crop = [&](auto... of) { return crop.crop_of(of...); };
      options.device = {.device = where, .graph = where != nullptr};
      return Trainer(context, *model, optimizer, train_set, test_set, options).run();
    };
    const TrainReport expected = train(nullptr, false);
    EXPECT_EQ(train(nullptr, true).param_hash, expected.param_hash);
    expect_similar(train(&device, true), expected, 1e-4);
    const TrainReport cropped = train(nullptr, true, "by workers");
    EXPECT_NE(cropped.param_hash, expected.param_hash);
    EXPECT_EQ(train(nullptr, true, "by the step").param_hash, cropped.param_hash);
    expect_similar(train(&device, true, "by the step"), cropped, 1e-4);
  });
}

class CountingDevice : public device::HostDevice {
 public:
  device::Memory allocate_pinned(std::size_t bytes) override {
    ++pinned;
    return HostDevice::allocate_pinned(bytes);
  }
  std::unique_ptr<device::Graph> capture(device::Stream& stream,
                                         const std::function<void()>& work) override {
    ++captures;
    return HostDevice::capture(stream, work);
  }
  int captures = 0, pinned = 0;
};

TEST(DeviceTrainer, LoadsBatchesIntoAFewPinnedBlocks) {
  testing::run_ranks(2, [&](Context& context) {
    const auto device = std::make_shared<CountingDevice>();
    const auto allocations_in = [&](std::uint64_t steps) {
      TrainerOptions options = small_device_options();
      options.steps = steps;
      options.loader.threads = 0;
      options.device.device = device.get();
      (void)SmallTraining().run(context, options);
      return std::exchange(device->pinned, 0);
    };
    EXPECT_EQ(allocations_in(5), allocations_in(18));
  });
}

TEST(DeviceTrainer, CapturesAfterPlainStepsOnceForEachEpoch) {
  testing::run_ranks(2, [&](Context& context) {
    const auto device = std::make_shared<CountingDevice>();
    const auto captures_in = [&](std::uint64_t steps, bool graph) {
      TrainerOptions options = small_device_options();
      options.steps = steps;
      options.device = {.device = device.get(), .graph = graph};
      const TrainReport report = SmallTraining().run(context, options);
      EXPECT_GT(report.median_step[StepPhase::kForward], 0);
      return std::exchange(device->captures, 0);
    };
    EXPECT_EQ(captures_in(0, false), 0);
    EXPECT_EQ(captures_in(GraphedSteps::kPlainSteps, true), 0);
    EXPECT_EQ(captures_in(GraphedSteps::kPlainSteps + 1, true), 1);
    EXPECT_EQ(captures_in(0, true), 2);
  });
}

TEST(DeviceTrainer, StopRequestedByOneRankStopsAllAtTheSameStep) {
  on_ranks(3, [](device::Device& device, Context& context) {
    for (const bool graph : {false, true}) {
      TrainerOptions options = small_device_options();
      options.callbacks = {std::make_shared<RequestedStop>(context.rank() == 1 ? 9 : 0)};
      options.device = {.device = &device, .graph = graph};
      const TrainReport report = SmallTraining().run(context, options);
      EXPECT_TRUE(report.was_stopped);
      EXPECT_GE(report.steps, 9u);
      EXPECT_LE(report.steps, 12u);  // the host is at most 3 steps ahead of the device
      EXPECT_EQ(report.losses.size(), report.steps);
      const std::vector<std::byte> steps{static_cast<std::byte>(report.steps)};
      for (const auto& other : context.allgather_object(steps, {.name = "steps"}))
        EXPECT_EQ(other, steps);
    }
  });
}

TEST(DeviceTrainer, LearnsInBFloat16) { on_ranks(2, check_bfloat16); }

TEST(DeviceTrainer, LearnsFromANarrowWire) { on_ranks(3, check_narrow_wire); }

TEST(DeviceTrainer, Clips) { on_ranks(2, check_clipping); }

TEST(DeviceTrainer, LossesDoNotDependOnTheNumberOfRanks) {
  TrainReport alone;
  on_ranks(1,
           [&](device::Device& device, Context& context) { alone = train_on(&device, context); });
  on_ranks(3, [&](device::Device& device, Context& context) {
    expect_similar(train_on(&device, context), alone, 1e-4);
  });
}

TEST(DeviceTrainer, SkipsStepsThatAreNotFinite) {
  on_ranks(2, [](device::Device& device, Context& context) {
    PoisonedDataset train_set(480, 1);
    train_set.bad_value = std::numeric_limits<float>::quiet_NaN();
    const BarsDataset test_set(150, 2);
    const auto train = [&](device::Device* where, bool with_adamw) {
      TrainerOptions options = small_device_options();
      options.max_skipped = 1;
      options.device.device = where;
      SmallTraining training;
      if (with_adamw) training.adamw = {.learning_rate = 0.01f, .beta2 = 0.9f};
      const auto optimizer = training.make_optimizer();
      return Trainer(context, *training.model, *optimizer, train_set, test_set, options).run();
    };
    // AdamW does not count skipped steps.
    for (const bool with_adamw : {false, true}) {
      const TrainReport expected = train(nullptr, with_adamw);
      const TrainReport report = train(&device, with_adamw);
      EXPECT_EQ(report.skipped_steps, 2u);
      EXPECT_LT(report.losses.back(), 0.7f * report.losses.front());
      ASSERT_EQ(report.losses.size(), expected.losses.size());
      for (std::size_t i = 0; i < report.losses.size(); ++i) {
        if (std::isnan(report.losses[i]) && std::isnan(expected.losses[i])) continue;
        EXPECT_NEAR(report.losses[i], expected.losses[i], 1e-3) << "step " << i;
      }
    }
  });
}

TEST(TrainStep, OfADeviceIsSkippedIfTheLossAloneIsNotFinite) {
  on_ranks(2, [](device::Device& device, Context& context) {
    const auto model = make_small_model();
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
    const CrossEntropy loss_function;
    TrainStep step(context, *model, optimizer, loss_function, {.device = &device},
                   {.check_finite = true});
    step.set_step(0);
    device::Stream& stream = step.device_backend()->stream();
    BatchUpload upload(device, step.device_backend()->allocator());
    const BarsDataset samples(6);
    for (const bool is_finite : {false, true}) {
      Batch batch = upload.upload(whole_batch(samples), stream);
      Tensor logits = step.forward(batch, {.training = true});
      step.backward(std::move(logits), batch, 6);
      step.exchange();
      auto* loss = static_cast<float*>(const_cast<void*>(step.scalars().data));
      if (!is_finite)
        device::submit(stream, [loss] { *loss = std::numeric_limits<float>::infinity(); });
      stream.synchronize();
      const float* value = step.model().parameters().back()->value.data();
      const float before = *value;
      step.update();
      stream.synchronize();
      EXPECT_EQ(step.verdict()->skip, is_finite ? 0u : 1u);
      EXPECT_TRUE(std::isfinite(step.verdict()->norm));
      EXPECT_EQ(*value != before, is_finite);
    }
  });
}

TEST(DeviceTrainer, EndsIfTheLossIsNotFinite) {
  on_ranks(2, [](device::Device& device, Context& context) {
    SmallTraining training;
    training.sgd.learning_rate = std::numeric_limits<float>::max();
    TrainerOptions options = small_device_options();
    options.device.device = &device;
    try {
      (void)training.run(context, options);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("diverged"));
    }
  });
}

// Minus infinity is zero behind the first layer's ReLU, but not in the gradient of its weights.
TEST(DeviceTrainer, FailsIfOnlyGradientsAreNotFinite) {
  on_ranks(2, [](device::Device& device, Context& context) {
    PoisonedDataset train_set(480, 1);
    train_set.bad_value = -std::numeric_limits<float>::infinity();
    const BarsDataset test_set(150, 2);
    SmallTraining training;
    training.model = make_mlp({.input = train_set.sample_shape(), .classes = BarsDataset::kSide});
    for (float& weight : training.model->parameters()[0]->value.values())
      weight = std::abs(weight) + 0.01f;
    training.sgd.learning_rate = 1e-6f;  // so that weights stay above zero
    const auto optimizer = training.make_optimizer();
    TrainerOptions options = small_device_options();
    options.device.device = &device;
    try {
      (void)Trainer(context, *training.model, *optimizer, train_set, test_set, options).run();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the gradients are not finite: training has diverged"));
    }
  });
}

TEST(DeviceTrainer, ResumesFromTheOptimizerState) {
  on_ranks(2, [](device::Device& device, Context& context) {
    // Trains 5 steps on the device and then 5 on the host, and in the opposite order.
    const auto train = [&](device::Device* first, device::Device* second, bool with_adamw) {
      SmallTraining training;
      if (with_adamw) training.adamw = {.learning_rate = 0.01f, .beta2 = 0.9f};
      const auto optimizer = training.make_optimizer();
      TrainerOptions options = small_device_options();
      options.steps = 5;
      std::vector<float> losses;
      for (device::Device* where : {first, second}) {
        options.device.device = where;
        const TrainReport report = Trainer(context, *training.model, *optimizer, training.train_set,
                                           training.test_set, options)
                                       .run();
        losses.insert(losses.end(), report.losses.begin(), report.losses.end());
      }
      return losses;
    };
    for (const bool with_adamw : {false, true}) {
      const std::vector<float> on_host = train(nullptr, nullptr, with_adamw);
      for (const auto& losses :
           {train(&device, nullptr, with_adamw), train(nullptr, &device, with_adamw)})
        for (std::size_t i = 0; i < losses.size(); ++i)
          EXPECT_NEAR(losses[i], on_host[i], 1e-4) << "step " << i;
    }
  });
}

TEST(DeviceTrainer, AveragesStatisticsAndMixesTypesOfGradients) {
  on_ranks(2, [](device::Device& device, Context& context) {
    const auto train = [&](device::Device* where, DataType type) {
      SmallTraining training;
      training.model = make_cnn({.input = {1, BarsDataset::kSide, BarsDataset::kSide},
                                 .channels = {4},
                                 .kernel = 3,
                                 .hidden = {16},
                                 .classes = BarsDataset::kSide,
                                 .batch_norm = true,
                                 .seed = 3});
      TrainerOptions options = small_device_options();
      options.clip_norm = 5;
      options.device = {.device = where, .type = type};
      return training.run(context, options);
    };
    const TrainReport expected = train(nullptr, DataType::kFloat32);
    const TrainReport report = train(&device, DataType::kFloat32);
    expect_similar(report, expected, 1e-3);
    EXPECT_NEAR(report.test_accuracy, expected.test_accuracy, 0.03);
    EXPECT_GT(train(&device, DataType::kBFloat16).test_accuracy, 0.6);
  });
}

/// Has no sample 100.
class BrokenDataset : public BarsDataset {
 public:
  using BarsDataset::BarsDataset;
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    if (index == 100) throw Error("sample 100 is broken");
    return BarsDataset::copy_sample(index, values);
  }
};

TEST(DeviceTrainer, FailedRankEndsOthers) {
  std::string message;
  EXPECT_ANY_THROW(on_ranks(2, [&](device::Device& device, Context& context) {
    const BrokenDataset broken(480, 1);
    const BarsDataset whole(480, 1), test_set(150, 2);
    const auto model = make_small_model();
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f, .momentum = 0.9f});
    TrainerOptions options = small_device_options();
    options.device.device = &device;
    const BarsDataset& train_set = context.rank() == 1 ? broken : whole;
    try {
      (void)Trainer(context, *model, optimizer, train_set, test_set, options).run();
    } catch (const CommunicationError& error) {
      message = error.what();
      throw;
    }
  }));
  EXPECT_THAT(message, HasSubstr("rank 1"));
}

TEST(DeviceTrainer, RefusesUnsupportedOptions) {
  on_ranks(2, [](device::Device& device, Context& context) {
    const auto message_of = [&](TrainerOptions options) -> std::string {
      options.device.device = &device;
      try {
        (void)SmallTraining().run(context, options);
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "no error";
    };
    TrainerOptions options = small_device_options();
    options.gradient_op = ReduceOp::kAdasum;
    EXPECT_THAT(message_of(options), HasSubstr("Adasum"));
    options = small_device_options();
    options.compression = {.kind = Compression::Kind::kTopK};
    EXPECT_THAT(message_of(options), HasSubstr("compression"));
    options = small_device_options();
    options.device.graph = true;
    options.accumulate = 2;
    EXPECT_THAT(message_of(options), HasSubstr("one pass per step"));
    options.accumulate = 1;
    EXPECT_THROW((void)SmallTraining().run(context, options), InvalidArgument);  // on the host
  });
}

TEST(DeviceTrainer, NamesDifferingOptionsOnEveryRank) {
  on_ranks(3, [](device::Device& device, Context& context) {
    const bool is_other = context.rank() == 1;
    const auto message_of = [&](SmallTraining training, TrainerOptions options) {
      options.device.device = &device;
      try {
        (void)training.run(context, options);
      } catch (const MismatchError& error) {
        return std::string(error.what());
      }
      return std::string("no error");
    };
    TrainerOptions options = small_device_options();
    if (is_other) options.clip_norm = 0.5;
    EXPECT_THAT(
        message_of(SmallTraining(), options),
        AllOf(HasSubstr("clip_norm is unset on rank 0"), HasSubstr("clip_norm = 0.5 on rank 1")));
    options = small_device_options();
    options.device.graph = is_other;
    EXPECT_THAT(message_of(SmallTraining(), options),
                AllOf(HasSubstr("device.graph = false on rank 0"),
                      HasSubstr("device.graph = true on rank 1")));
    SmallTraining training;
    if (is_other) training.adamw.emplace();
    EXPECT_THAT(message_of(std::move(training), small_device_options()),
                AllOf(HasSubstr("Sgd with momentum 0.9 and"), HasSubstr("AdamW with beta1 0.9"),
                      HasSubstr("on rank 1")));
    SmallTraining faster;
    faster.sgd.learning_rate = is_other ? 0.05f : 0.1f;
    options = small_device_options();
    options.steps = 2;
    options.learning_rate = LearningRateSchedule{.base_rate = 0.1f};
    EXPECT_EQ(message_of(std::move(faster), options), "no error");
  });
}

}  // namespace
}  // namespace horo::ops

// On the stand-in, whose ranks are threads.
#include "ops/train/step/loss_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/nn/models/resnet.h"
#include "tests/ops/train/device_training.h"

namespace horo::ops {
namespace {

using ::testing::Each;

TrainerOptions float16_options(device::Device* device, const LossScaleOptions& scale = {}) {
  TrainerOptions options = small_device_options();
  options.device = {.device = device, .type = DataType::kFloat16, .loss_scale = scale};
  return options;
}

std::vector<TrainReport> train_in_float16(int ranks, const LossScaleOptions& scale,
                                          std::uint64_t steps, std::size_t accumulate = 1,
                                          bool graph = false) {
  std::vector<TrainReport> reports(static_cast<std::size_t>(ranks));
  testing::run_ranks(ranks, [&](Context& context) {
    const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
    TrainerOptions options = float16_options(device.get(), scale);
    options.steps = steps;
    options.accumulate = accumulate;
    options.device.graph = graph;
    reports[static_cast<std::size_t>(context.rank())] = SmallTraining().run(context, options);
  });
  return reports;
}

TEST(LossScaling, TrainsAsFloat32) {
  testing::run_ranks(2, [](Context& context) {
    const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
    const TrainReport expected = train_on(device.get(), context);
    const TrainReport report =
        SmallTraining().run(context, float16_options(device.get(), {.initial = 1024}));
    expect_similar(report, expected, 0.15);
    EXPECT_NEAR(report.test_accuracy, expected.test_accuracy, 0.04);
    EXPECT_EQ(report.loss_scale, 1024);
    EXPECT_EQ(report.skipped_steps, 0u);
    EXPECT_EQ(expected.loss_scale, 0);
  });
}

// Residual blocks, batch normalisation and pooling have kernels of their own.
TEST(LossScaling, TrainsAResidualNetwork) {
  testing::run_ranks(2, [](Context& context) {
    const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
    const auto train = [&](DataType type) {
      TrainerOptions options = float16_options(device.get(), {.initial = 256});
      options.device.type = type;
      options.steps = 3;
      SmallTraining training;
      training.model = make_resnet({.in_channels = 1, .classes = BarsDataset::kSide, .seed = 5});
      return training.run(context, options);
    };
    expect_similar(train(DataType::kFloat16), train(DataType::kFloat32), 0.1);
  });
}

TEST(LossScaling, AnOverflowHalvesTheScaleAndSkipsTheStepOnAllRanks) {
  for (const std::size_t accumulate : {1, 2})
    for (const bool graph : {false, true}) {
      if (graph && accumulate > 1) continue;
      const auto reports = train_in_float16(2, {.initial = 0x1p30f}, 20, accumulate, graph);
      const TrainReport& first = reports[0];
      EXPECT_GT(first.skipped_steps, 5u);
      EXPECT_LT(first.skipped_steps, 20u);
      EXPECT_EQ(first.loss_scale, 0x1p30f / static_cast<float>(1 << first.skipped_steps));
      EXPECT_EQ(first.losses[1], first.losses[1]);
      EXPECT_LT(first.losses.back(), first.losses.front());
      EXPECT_EQ(reports[1].skipped_steps, first.skipped_steps);
      EXPECT_EQ(reports[1].loss_scale, first.loss_scale);
      EXPECT_EQ(reports[1].losses, first.losses);
      EXPECT_EQ(reports[1].param_hash, first.param_hash);
    }
}

TEST(LossScaling, GoodStepsDoubleTheScale) {
  for (const TrainReport& report : train_in_float16(2, {.initial = 8, .growth_interval = 4}, 14)) {
    EXPECT_EQ(report.loss_scale, 64);  // after 4, 8 and 12 steps
    EXPECT_EQ(report.skipped_steps, 0u);
  }
}

/// An input that is not finite in float16 on the ranks that read it.
class LargeInput : public BarsDataset {
 public:
  using BarsDataset::BarsDataset;
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    const std::int32_t label = BarsDataset::copy_sample(index, values);
    if (index == 7) values[3] = 1e30f;
    return label;
  }
};

// No scale helps if the loss is not finite, so this is not an overflow.
TEST(LossScaling, ALossThatIsNotFiniteEndsTraining) {
  testing::run_ranks(2, [](Context& context) {
    const auto device = std::make_shared<device::HostDevice>(device::HostDevice::Options{});
    const LargeInput train_set(48, 1);
    const BarsDataset test_set(30, 2);
    const auto model = make_small_model(0);
    Sgd optimizer(model->parameters(), {.learning_rate = 0.1f});
    TrainerOptions options = float16_options(device.get());
    Trainer trainer(context, *model, optimizer, train_set, test_set, options);
    EXPECT_THROW(trainer.run(), Error);
  });
}

TEST(LossScaling, RefusesOptionsOutOfRangeAndHostMemory) {
  EXPECT_THROW(LossScaling({.initial = 0}), InvalidArgument);
  EXPECT_THROW(LossScaling({.growth_interval = 0}), InvalidArgument);
  EXPECT_THROW(LossScaling().set_state("none"), InvalidArgument);
  testing::run_ranks(1, [](Context& context) {
    EXPECT_THROW(SmallTraining().run(context, float16_options(nullptr)), InvalidArgument);
  });
}

TEST(LossScaling, StateIsTheScaleAndTheGoodSteps) {
  LossScaling scaling({.initial = 3});
  EXPECT_EQ(scaling.state(), "3 0");
  scaling.set_state("0.125 77");
  EXPECT_EQ(scaling.value().scale, 0.125f);
  EXPECT_EQ(scaling.value().good_steps, 77u);
}

}  // namespace
}  // namespace horo::ops

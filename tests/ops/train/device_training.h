#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "ops/backend/cpu/threads.h"
#include "ops/nn/models/resnet.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "ops/train/trainer.h"
#include "tests/ops/train/small_task.h"

// Checks of training for any device. Collective.
namespace horo::ops {

inline TrainerOptions small_device_options() {
  return {.epochs = 2, .global_batch = 24, .seed = 5, .evaluation_batch = 64};
}

struct SmallTraining {
  std::unique_ptr<Sequential> model = make_small_model(0.2f);
  SgdOptions sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 1e-3f};
  std::optional<AdamWOptions> adamw{};  // used in place of sgd, if set
  BarsDataset train_set{480, 1}, test_set{150, 2};

  std::unique_ptr<Optimizer> make_optimizer() {
    if (adamw) return std::make_unique<AdamW>(model->parameters(), *adamw);
    return std::make_unique<Sgd>(model->parameters(), sgd);
  }
  TrainReport run(Context& context, const TrainerOptions& options) {
    set_compute_threads(1);
    return Trainer(context, *model, *make_optimizer(), train_set, test_set, options).run();
  }
};

inline TrainReport train_on(device::Device* device, Context& context,
                            TrainerOptions options = small_device_options(),
                            DataType type = DataType::kFloat32) {
  options.device = {.device = device, .type = type};
  return SmallTraining().run(context, options);
}

inline void expect_similar(const TrainReport& report, const TrainReport& expected,
                           double tolerance) {
  ASSERT_EQ(report.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < report.losses.size(); ++i)
    EXPECT_NEAR(report.losses[i], expected.losses[i], tolerance) << "step " << i;
}

/// Expects the loss curve of a training on the host, and the same parameters on all ranks.
inline void compare_with_host(device::Device& device, Context& context) {
  const TrainReport expected = train_on(nullptr, context);
  const TrainReport report = train_on(&device, context);
  expect_similar(report, expected, 1e-4);
  EXPECT_NEAR(report.test_accuracy, expected.test_accuracy, 0.02);
  EXPECT_EQ(report.steps, expected.steps);
  EXPECT_GT(report.median_step[StepPhase::kForward], 0);
  EXPECT_GT(report.median_step[StepPhase::kBackward], 0);
  EXPECT_EQ(report.control_messages_per_step, 0);
  EXPECT_EQ(train_on(&device, context).param_hash, report.param_hash);
}

/// The same for a perceptron and ResNet-20. ResNet-20 amplifies rounding: other parameters by a
/// relative 1e-6 change its loss by up to 0.03 within these four steps, because some ReLUs switch.
/// The host keeps channels last and adds in another order than a device in float32.
inline void compare_other_networks_with_host(device::Device& device, Context& context,
                                             double resnet_tolerance) {
  const std::size_t side = BarsDataset::kSide;
  const auto train = [&](const auto& make_model, device::Device* where, std::uint64_t steps) {
    TrainerOptions options = small_device_options();
    options.epochs = 1;
    options.steps = steps;
    options.device.device = where;
    SmallTraining training;
    training.model = make_model();
    return training.run(context, options);
  };
  const auto mlp = [&] {
    return make_mlp({.input = {1, side, side}, .hidden = {33, 17}, .classes = side, .seed = 4});
  };
  const auto resnet20 = [&] { return make_resnet({.in_channels = 1, .classes = side, .seed = 5}); };
  expect_similar(train(mlp, &device, 0), train(mlp, nullptr, 0), 1e-4);
  expect_similar(train(resnet20, &device, 4), train(resnet20, nullptr, 4), resnet_tolerance);
}

/// Several passes per step give the same losses as one, in both memories, also in a padded step.
/// Types of gradients may differ.
inline void compare_accumulation_with_host(device::Device& device, Context& context) {
  const auto train = [&](device::Device* where, std::size_t passes, DataType type) {
    TrainerOptions options = small_device_options();
    options.epochs = 1;
    options.global_batch = 50;
    options.last_batch = LastBatch::kPad;
    options.accumulate = passes;
    options.clip_norm = 5;
    options.device = {.device = where, .type = type};
    return SmallTraining().run(context, options);
  };
  const TrainReport expected = train(nullptr, 1, DataType::kFloat32);
  for (const std::size_t passes : {2, 3}) {
    expect_similar(train(&device, passes, DataType::kFloat32), expected, 1e-4);
    expect_similar(train(&device, passes, DataType::kBFloat16), expected, 0.15);
  }
  EXPECT_EQ(train(&device, 3, DataType::kFloat32).param_hash,
            train(&device, 3, DataType::kFloat32).param_hash);
}

/// A token model with padding and label smoothing, and a regression.
inline void compare_losses_with_host(device::Device& device, Context& context) {
  set_compute_threads(1);
  const auto train = [&](const Dataset& set, std::shared_ptr<const Loss> loss,
                         const MlpOptions& net, device::Device* where, std::size_t passes) {
    const auto model = make_mlp(net);
    Sgd optimizer(model->parameters(), {.learning_rate = 0.3f, .momentum = 0.5f});
    TrainerOptions options{.epochs = 6, .global_batch = 24, .accumulate = passes};
    options.loss = std::move(loss);
    options.device.device = where;
    return Trainer(context, *model, optimizer, set, set, options).run();
  };
  const auto expect_same = [&](const auto& run) {
    const TrainReport expected = run(nullptr, 1);
    EXPECT_LT(expected.losses.back(), 0.7f * expected.losses.front());
    for (const std::size_t passes : {1, 2}) {
      const TrainReport report = run(&device, passes);
      expect_similar(report, expected, 1e-4);
      EXPECT_NEAR(report.test_loss, expected.test_loss, 1e-4);
      EXPECT_NEAR(report.test_accuracy, expected.test_accuracy, 0.02);
    }
    return expected;
  };
  const TokensDataset tokens(96);
  constexpr std::size_t kLogits = TokensDataset::kLength * TokensDataset::kTokens;
  const TrainReport of_tokens = expect_same([&](device::Device* where, std::size_t passes) {
    return train(tokens,
                 std::make_shared<CrossEntropy>(CrossEntropyOptions{
                     .label_smoothing = 0.1f, .ignored = TokensDataset::kPadding}),
                 {.input = {kLogits}, .hidden = {32}, .classes = kLogits, .seed = 2}, where,
                 passes);
  });
  EXPECT_GT(of_tokens.test_accuracy, 0.9);
  const LinesDataset lines(96);
  const TrainReport of_lines = expect_same([&](device::Device* where, std::size_t passes) {
    return train(lines, std::make_shared<MeanSquaredError>(),
                 {.input = {3}, .hidden = {}, .classes = 2, .seed = 2}, where, passes);
  });
  EXPECT_LT(of_lines.test_loss, 1e-2);
  EXPECT_EQ(of_lines.test_accuracy, 0);
}

/// Steps as graphs give the same bits as plain steps: dropout, batch normalisation, learning rate
/// and clipping follow the step. The last rank has fewer samples than the others, and the
/// last step of an epoch is padded. Two epochs capture two graphs.
inline void compare_graphs_with_plain_steps(device::Device& device, Context& context) {
  const auto train = [&](bool graph, bool with_adamw, DataType type) {
    TrainerOptions options = small_device_options();
    options.global_batch = 25;
    options.last_batch = LastBatch::kPad;
    options.clip_norm = 0.5;
    options.learning_rate =
        LearningRateSchedule{.base_rate = with_adamw ? 0.01f : 0.1f, .warm_up_steps = 12};
    options.device = {.device = &device, .type = type, .graph = graph};
    SmallTraining training;
    training.model = make_cnn({.input = {1, BarsDataset::kSide, BarsDataset::kSide},
                               .channels = {4},
                               .kernel = 3,
                               .hidden = {16},
                               .classes = BarsDataset::kSide,
                               .batch_norm = true,
                               .dropout = 0.2f,
                               .seed = 3});
    if (with_adamw) training.adamw = {.beta2 = 0.99f};
    return training.run(context, options);
  };
  for (const bool with_adamw : {false, true}) {
    const DataType type = with_adamw ? DataType::kBFloat16 : DataType::kFloat32;
    const TrainReport expected = train(false, with_adamw, type);
    const TrainReport report = train(true, with_adamw, type);
    EXPECT_EQ(report.losses, expected.losses);
    EXPECT_EQ(report.param_hash, expected.param_hash);
    EXPECT_EQ(report.test_accuracy, expected.test_accuracy);
    EXPECT_GT(report.clipped_steps, 0u);
    EXPECT_EQ(report.clipped_steps, expected.clipped_steps);
  }
}

inline void check_bfloat16(device::Device& device, Context& context) {
  const TrainReport expected = train_on(nullptr, context);
  const TrainReport report =
      train_on(&device, context, small_device_options(), DataType::kBFloat16);
  expect_similar(report, expected, 0.15);
  EXPECT_GT(report.test_accuracy, 0.6);
}

/// With a loss scale that fits, and, as graphs, with one that overflows: then steps are skipped on
/// all ranks until the scale fits.
inline void check_float16(device::Device& device, Context& context) {
  const auto train = [&](std::uint64_t steps, float scale, bool graph) {
    TrainerOptions options = small_device_options();
    options.steps = steps;
    options.device = {.device = &device,
                      .type = DataType::kFloat16,
                      .loss_scale = {.initial = scale},
                      .graph = graph};
    return SmallTraining().run(context, options);
  };
  TrainerOptions options = small_device_options();
  options.steps = 10;
  const TrainReport good = train(10, 1024, false);
  expect_similar(good, train_on(nullptr, context, options), 0.15);
  EXPECT_EQ(good.skipped_steps, 0u);
  EXPECT_EQ(good.loss_scale, 1024);
  const TrainReport overflowing = train(16, 0x1p28f, true);
  EXPECT_GT(overflowing.skipped_steps, 3u);
  EXPECT_LT(overflowing.skipped_steps, 16u);
  EXPECT_EQ(overflowing.loss_scale, 0x1p28f / static_cast<float>(1u << overflowing.skipped_steps));
  EXPECT_LT(overflowing.losses.back(), overflowing.losses.front());
}

inline void check_clipping(device::Device& device, Context& context) {
  TrainerOptions options = small_device_options();
  options.clip_norm = 0.5;
  const TrainReport expected = train_on(nullptr, context, options);
  const TrainReport report = train_on(&device, context, options);
  expect_similar(report, expected, 1e-3);
  EXPECT_GT(report.clipped_steps, 0u);
  EXPECT_EQ(report.clipped_steps, expected.clipped_steps);
}

inline void compare_adamw_with_host(device::Device& device, Context& context) {
  TrainerOptions options = small_device_options();
  const auto train = [&](device::Device* where) {
    options.device.device = where;
    SmallTraining training;
    training.adamw = {.learning_rate = 0.01f, .beta2 = 0.99f, .weight_decay = 0.1f};
    return training.run(context, options);
  };
  const TrainReport expected = train(nullptr);
  const TrainReport report = train(&device);
  expect_similar(report, expected, 1e-4);
  EXPECT_LT(report.losses.back(), 0.7f * report.losses.front());
  EXPECT_EQ(train(&device).param_hash, report.param_hash);
}

/// The wire type rounds gradients, but not the loss.
inline void check_narrow_wire(device::Device& device, Context& context) {
  TrainerOptions options = small_device_options();
  options.clip_norm = 0.5;
  const TrainReport expected = train_on(nullptr, context, options);
  options.device = {.device = &device};
  options.wire = DataType::kBFloat16;
  const TrainReport report = SmallTraining().run(context, options);
  expect_similar(report, expected, 0.05);
  EXPECT_NEAR(report.losses.front(), expected.losses.front(), 1e-5);
  EXPECT_NEAR(static_cast<double>(report.clipped_steps),
              static_cast<double>(expected.clipped_steps), 2);
}

}  // namespace horo::ops

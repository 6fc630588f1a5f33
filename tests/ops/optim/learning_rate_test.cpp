#include "ops/optim/learning_rate.h"

#include "horo/base/error.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

TEST(LearningRate, ConstantWithWarmUp) {
  const LearningRateSchedule schedule{.base_rate = 0.4, .warm_up_steps = 4, .start_rate = 0.2};
  const double expected[] = {0.2, 0.25, 0.3, 0.35, 0.4, 0.4};
  for (std::size_t step = 0; step < 6; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule, step), expected[step]) << step;
  }
  EXPECT_DOUBLE_EQ(learning_rate_at({.base_rate = 0.3}, 0), 0.3);
}

TEST(LearningRate, StepFallsAtTheMilestones) {
  const LearningRateSchedule schedule{
      .decay = Decay::kStep, .base_rate = 8, .milestones = {10, 20}, .step_factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 9), 8);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 10), 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 19), 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1000), 2);
}

TEST(LearningRate, CosineFallsFromBaseToFinal) {
  const LearningRateSchedule schedule{.decay = Decay::kCosine,
                                      .base_rate = 1.0,
                                      .warm_up_steps = 10,
                                      .total_steps = 110,
                                      .final_rate = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 60), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 5000), 0.2);
  for (std::size_t step = 11; step <= 110; ++step) {
    EXPECT_LT(learning_rate_at(schedule, step), learning_rate_at(schedule, step - 1)) << step;
  }
}

TEST(LearningRate, PolynomialFallsWithThePowerOfTheShareLeft) {
  LearningRateSchedule schedule{.decay = Decay::kPolynomial,
                                .base_rate = 1.0,
                                .warm_up_steps = 10,
                                .total_steps = 110,
                                .final_rate = 0.2,
                                .power = 2};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 60), 0.2 + 0.8 / 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 110), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 111), 0.2);
  schedule.power = 1;
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 35), 0.8);
  schedule.power = 0;
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)learning_rate_at(schedule, 35); }),
            "polynomial learning rate: power is 0; must be above 0");
}

TEST(LearningRate, DecayNeedsALength) {
  const auto text = [](Decay decay) {
    return message_of<InvalidArgument>(
        [&] { (void)learning_rate_at({.decay = decay, .warm_up_steps = 5, .total_steps = 5}, 7); });
  };
  EXPECT_EQ(text(Decay::kCosine),
            "cosine learning rate: total_steps is 5; must be above warm_up_steps, which is 5");
  EXPECT_EQ(text(Decay::kPolynomial),
            "polynomial learning rate: total_steps is 5; must be above warm_up_steps, which is 5");
}

TEST(LearningRate, ScalesLinearlyWithTheBatch) {
  EXPECT_DOUBLE_EQ(linear_scaling(0.1, 256, 8192), 3.2);
  EXPECT_DOUBLE_EQ(linear_scaling(0.1, 256, 64), 0.025);
  EXPECT_THROW((void)linear_scaling(0.1, 0, 64), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops

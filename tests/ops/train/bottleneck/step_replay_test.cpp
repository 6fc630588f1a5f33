#include "ops/train/bottleneck/step_replay.h"

#include <gtest/gtest.h>

#include "tests/ops/train/bottleneck/made_costs.h"

namespace horo::ops {
namespace {

// Rank 1 logs for 4 ms in every second step; rank 2 waits for data for 2 ms.
JobCosts uneven_job() {
  return made_job(3, 0.25, [](std::size_t rank, std::size_t step) {
    if (rank == 1 && step % 2 == 0) return usual_step({{StepPhase::kLogging, 4}});
    if (rank == 2) return usual_step({{StepPhase::kDataWait, 2}});
    return usual_step();
  });
}

TEST(StepReplay, GivesTheMeasuredStepWithoutChanges) {
  const JobCosts job = uneven_job();
  double total = 0;
  for (const StepTimes& step : job.ranks[1].steps) total += step.total_ms;
  EXPECT_NEAR(StepReplay(job).step_ms(), total / 100, 0.05);  // the ranks end at different times
}

TEST(StepReplay, SeparatesStragglerWaitFromCommunication) {
  const StepReplay replay(uneven_job());
  EXPECT_NEAR(replay.communication_ms(), 0.25, 1e-9);
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_NEAR(replay.mean(rank)[StepPhase::kExposedCommunication], 0.25, 1e-9);
  EXPECT_NEAR(replay.straggler_wait(0), (4 + 2) / 2.0, 0.05);
  EXPECT_NEAR(replay.straggler_wait(1), 2 / 2.0, 0.05);
  EXPECT_NEAR(replay.straggler_wait(2), 2 / 2.0, 0.05);
}

// Without the log entries of rank 1, rank 2 is the last one in every step.
TEST(StepReplay, FindsTheStepWithoutACost) {
  StepReplay replay(uneven_job());
  const double before = replay.step_ms();
  EXPECT_NEAR(before, 9.5 + 0.25 + (4 + 2) / 2.0, 0.05);
  replay.scale(1, StepPhase::kLogging, 0);
  EXPECT_NEAR(replay.step_ms(), 9.5 + 0.25 + 2, 0.05);
  replay.scale(2, StepPhase::kDataWait, 0.5);
  EXPECT_NEAR(replay.step_ms(), 9.5 + 0.25 + 1, 0.05);
  replay.scale_communication(0);
  EXPECT_NEAR(replay.step_ms(), 9.5 + 1, 0.05);
}

TEST(StepReplay, BalancesAndEqualisesComputation) {
  const JobCosts job = made_job(2, 0, [](std::size_t rank, std::size_t step) {
    return usual_step({{StepPhase::kBackward, rank == step % 2 ? 4.0 : 0.0}});
  });
  StepReplay balanced(job), equal(job);
  EXPECT_NEAR(balanced.longest_compute_ms(), 13, 1e-9);
  balanced.balance_compute();
  EXPECT_NEAR(balanced.longest_compute_ms(), 11, 1e-9);
  equal.compute_as_others(1);  // only ever shortens a step
  EXPECT_NEAR(equal.longest_compute_ms(), 11, 1e-9);
}

TEST(StepReplay, CountsLongPhases) {
  const StepReplay replay(uneven_job());
  EXPECT_DOUBLE_EQ(replay.share_of_steps(1, StepPhase::kLogging, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(replay.share_of_steps(0, StepPhase::kLogging, 0.1), 0);
}

TEST(StepReplay, HasZerosWithoutSteps) {
  const StepReplay replay(JobCosts{.ranks = std::vector<RankCosts>(2)});
  EXPECT_EQ(replay.step_ms(), 0);
  EXPECT_EQ(replay.mean(1).total_ms, 0);
  EXPECT_EQ(replay.straggler_wait(1), 0);
}

}  // namespace
}  // namespace horo::ops

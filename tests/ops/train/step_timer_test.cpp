#include "ops/train/step/step_timer.h"

#include <gtest/gtest.h>

namespace horo::ops {
namespace {

using namespace std::chrono_literals;

/// A simulated clock, which only pass() advances.
class StepTimerTest : public testing::Test {
 protected:
  /// One step whose phases take this many milliseconds each.
  void step(int data_wait, int forward, int backward, int communication, int optimizer) {
    timer_.begin_step(StepPhase::kDataWait);
    pass(data_wait);
    timer_.enter(StepPhase::kForward);
    pass(forward);
    timer_.enter(StepPhase::kBackward);
    pass(backward);
    timer_.enter(StepPhase::kExposedCommunication);
    pass(communication);
    timer_.enter(StepPhase::kOptimizer);
    pass(optimizer);
    timer_.end_step();
    pass(1000);  // between steps: not counted
  }
  void pass(int milliseconds) { time_ += std::chrono::milliseconds(milliseconds); }

  StepTimer::Clock::time_point time_;
  StepTimer timer_{[this] { return time_; }};
};

TEST_F(StepTimerTest, SumsPhasesOfAStep) {
  step(1, 2, 3, 4, 5);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kDataWait], 1);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kForward], 2);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kBackward], 3);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kExposedCommunication], 4);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kOptimizer], 5);
  EXPECT_DOUBLE_EQ(timer_.latest().total_ms, 15);
}

TEST_F(StepTimerTest, ContinuesTheLatestStep) {
  step(1, 2, 3, 4, 5);
  timer_.resume_step(StepPhase::kLogging);
  pass(6);
  timer_.enter(StepPhase::kCheckpoint);
  pass(7);
  timer_.end_step();
  EXPECT_EQ(timer_.step_count(), 1u);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kForward], 2);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kLogging], 6);
  EXPECT_DOUBLE_EQ(timer_.latest()[StepPhase::kCheckpoint], 7);
  EXPECT_DOUBLE_EQ(timer_.latest().total_ms, 28);
  step(1, 1, 1, 1, 1);
  EXPECT_DOUBLE_EQ(timer_.total_ms(), 33);
}

TEST_F(StepTimerTest, MediansAndMeansLeaveOutTheFirstStep) {
  step(0, 500, 500, 0, 0);
  step(0, 2, 10, 1, 0);
  step(0, 4, 10, 9, 0);
  step(3, 6, 10, 2, 0);
  EXPECT_DOUBLE_EQ(timer_.medians()[StepPhase::kForward], 4);
  EXPECT_DOUBLE_EQ(timer_.medians()[StepPhase::kExposedCommunication], 2);
  EXPECT_DOUBLE_EQ(timer_.medians()[StepPhase::kDataWait], 0);
  EXPECT_DOUBLE_EQ(timer_.medians().total_ms, 21);  // of 13, 23, 21
  EXPECT_DOUBLE_EQ(timer_.means()[StepPhase::kDataWait], 1);
  EXPECT_DOUBLE_EQ(timer_.means().total_ms, 19);
  step(0, 5, 10, 2, 0);
  EXPECT_DOUBLE_EQ(timer_.medians()[StepPhase::kForward], 4.5);  // of 2, 4, 5, 6
}

TEST_F(StepTimerTest, HasZerosWithoutStepsAndTheOnlyStepOtherwise) {
  EXPECT_EQ(timer_.medians().total_ms, 0);
  step(0, 7, 0, 0, 0);
  EXPECT_DOUBLE_EQ(timer_.medians()[StepPhase::kForward], 7);
  EXPECT_EQ(timer_.step_count(), 1u);
}

TEST_F(StepTimerTest, DescribesWhereTheTimeWent) {
  step(1, 30, 60, 5, 4);
  EXPECT_EQ(describe(timer_.latest()),
            "step 100 ms: data wait 1 %, forward 30 %, backward 60 %, exposed communication 5 %, "
            "optimizer 4 %");
  EXPECT_EQ(describe({.phase_ms = {0, 6.15, 6.15, 0, 0}, .total_ms = 12.3}),
            "step 12.3 ms: data wait 0 %, forward 50 %, backward 50 %, exposed communication 0 %, "
            "optimizer 0 %");
  EXPECT_EQ(describe({.phase_ms = {0, 50, 40, 0, 0, 0, 10}, .total_ms = 100}),
            "step 100 ms: data wait 0 %, forward 50 %, backward 40 %, exposed communication 0 %, "
            "optimizer 0 %, logging 10 %");
}

}  // namespace
}  // namespace horo::ops

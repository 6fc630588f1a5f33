#include "horo/plan/step_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <list>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/plan/gradients/gradient_marks.h"
#include "horo/plan/gradients/host_gradient_memory.h"

namespace horo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GradientMarks, RefuseSecondMarkInOnePass) {
  GradientMarks marks(3);
  EXPECT_TRUE(marks.mark(1));
  EXPECT_FALSE(marks.mark(1));
  EXPECT_TRUE(marks.is_any_marked());
  EXPECT_FALSE(marks.are_all_marked());
  EXPECT_THAT(marks.unmarked_in_step(), ElementsAre(0, 2));
}

TEST(GradientMarks, RememberEarlierPassesUntilStepEnds) {
  GradientMarks marks(3);
  marks.mark(0);
  marks.end_pass();
  EXPECT_FALSE(marks.is_any_marked());
  EXPECT_TRUE(marks.has_earlier_marks());
  EXPECT_TRUE(marks.mark(0)) << "a gradient is marked once per pass";
  marks.mark(2);
  EXPECT_THAT(marks.unmarked_in_step(), ElementsAre(1));
  marks.end_step();
  EXPECT_FALSE(marks.is_any_marked());
  EXPECT_FALSE(marks.has_earlier_marks());
  EXPECT_THAT(marks.unmarked_in_step(), ElementsAre(0, 1, 2));
}

// A job of one rank with two gradients.
class StepHooksTest : public ::testing::Test {
 protected:
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

  StepHooks make_hooks(GradientSyncOptions options) {
    options.autotune = false;
    return {gradients_, plan_, options, topology_,
            std::make_unique<PlanTuning>("net", gradients_, options, settings_, topology_)};
  }
  StepExchange begin_step(const StepHooks& hooks) {
    StepReport& report =
        reports_.emplace_back(StepReport{.was_exchanged = true, .total_weight = 1});
    StepExchange step{.collectives = ring_, .memory = &memory_, .count = count_, .report = report};
    for (StepHook* hook : hooks.in_order()) hook->begin_exchange(step);
    return step;
  }
  BucketExchange exchange_bucket(const StepHooks& hooks, const StepExchange& step) {
    BucketExchange bucket{
        .gradients = plan_.buckets[0], .is_compressed = false, .op = ReduceOp::kAverage};
    for (StepHook* hook : hooks.in_order()) hook->before_bucket(step, bucket);
    for (StepHook* hook : hooks.in_order()) hook->after_bucket(step, bucket);
    return bucket;
  }
  static void end_step(const StepHooks& hooks, StepExchange& step) {
    for (StepHook* hook : hooks.in_order()) hook->end_exchange(step);
    for (StepHook* hook : hooks.in_order()) hook->complete(step);
  }

  collectives::InProcessJob job_{1};
  std::unique_ptr<collectives::Transport> transport_ = job_.transport(0);
  std::unique_ptr<collectives::PointToPoint> peers_ = transport_->make_point_to_point();
  collectives::RingCollectives ring_{*peers_, 1024};
  const CountCollective count_ = [](std::size_t, std::size_t) {};
  std::list<StepReport> reports_;  // of the steps
  const Topology topology_ = make_topology(0, {"node"}, {"node"});
  const Settings settings_;
  std::vector<float> a_ = {3, 0, 0}, b_ = {0, 4};
  const std::vector<NamedTensor> gradients_ = {{"a", TensorView(a_)}, {"b", TensorView(b_)}};
  HostGradientMemory memory_{gradients_, {false, false}};
  const BucketPlan plan_ = make_bucket_plan(gradients_, {1000});
};

TEST_F(StepHooksTest, HasOnlyHooksOfOptions) {
  const StepHooks plain = make_hooks({});
  EXPECT_THAT(plain.in_order(), ElementsAre());
  const StepHooks all =
      make_hooks({.reorder = true, .find_unused = true, .weighted = true, .clip_norm = 1});
  EXPECT_THAT(all.in_order(),
              ElementsAre(all.order.get(), all.unused.get(), all.norms.get(), all.weights.get()));
}

TEST_F(StepHooksTest, ClipsToNorm) {
  const StepHooks hooks = make_hooks({.clip_norm = 1});
  StepExchange step = begin_step(hooks);
  EXPECT_EQ(exchange_bucket(hooks, step).op, ReduceOp::kAverage);
  end_step(hooks, step);
  EXPECT_EQ(step.report.norm, 5);
  EXPECT_TRUE(step.report.was_clipped);
  EXPECT_FLOAT_EQ(a_[0], 0.6F);
  EXPECT_FLOAT_EQ(b_[1], 0.8F);
}

TEST_F(StepHooksTest, SkipsStepInWhichNoRankHasData) {
  const StepHooks hooks = make_hooks({.weighted = true, .check_finite = true});
  hooks.weights->set_own(0);
  a_[1] = kNan;
  StepExchange step = begin_step(hooks);
  EXPECT_TRUE(step.is_skipped());
  EXPECT_FALSE(step.has_data);
  end_step(hooks, step);
  EXPECT_EQ(step.report.total_weight, 0);
  EXPECT_EQ(step.report.norm, 0);
  EXPECT_TRUE(step.report.is_finite);
  EXPECT_THAT(a_, ElementsAre(0, 0, 0));
  EXPECT_THAT(b_, ElementsAre(0, 0));
}

TEST_F(StepHooksTest, NamesFirstNonFiniteGradient) {
  const StepHooks hooks = make_hooks({.check_finite = true});
  a_[2] = kNan;
  b_[0] = kNan;
  StepExchange step = begin_step(hooks);
  exchange_bucket(hooks, step);
  end_step(hooks, step);
  ASSERT_TRUE(step.report.non_finite);
  EXPECT_EQ(step.report.non_finite->describe(), "gradient 'a' of rank 0 is nan at index 2");
  // The next step starts without the value found.
  a_[2] = b_[0] = 0;
  StepExchange next = begin_step(hooks);
  exchange_bucket(hooks, next);
  end_step(hooks, next);
  EXPECT_TRUE(next.report.is_finite);
}

TEST_F(StepHooksTest, ReportsUnusedGradientsOfOneStep) {
  const StepHooks hooks = make_hooks({.find_unused = true});
  hooks.unused->note(1);
  StepExchange step = begin_step(hooks);
  end_step(hooks, step);
  EXPECT_THAT(step.report.unused_everywhere, ElementsAre(1));
  StepExchange next = begin_step(hooks);
  end_step(hooks, next);
  EXPECT_THAT(next.report.unused_everywhere, IsEmpty());
}

}  // namespace
}  // namespace horo::plan

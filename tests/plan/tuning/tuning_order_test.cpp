#include <gtest/gtest.h>

#include "tests/plan/tuning/tuned_job.h"

namespace horo {
namespace {

using testing::run_ranks;

class TuningOrder : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, TuningOrder,
                         ::testing::Values(JobShape{2, 2}, JobShape{2, 1}, JobShape{3, 3},
                                           JobShape{3, 1}, JobShape{3, 2}, JobShape{4, 2}),
                         name_of_shape);

TEST_P(TuningOrder, NamedOperationsMayInterleaveDifferently) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) { cross_with_named_operations(ctx, {.op = ReduceOp::kSum}); },
      tuned(GetParam()));
}

TEST_P(TuningOrder, MayDifferForReorderedPlan) {
  for (const char* autotune : {"on", "off"})
    run_ranks(
        GetParam().ranks,
        [](Context& ctx) {
          cross_with_named_operations(ctx, {.op = ReduceOp::kSum, .reorder = true});
        },
        tuned(GetParam(), autotune));
}

TEST_P(TuningOrder, PlansMayBeWaitedForInEitherOrder) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel models[2] = {WholeModel(11), WholeModel(7)};
        GradientSync first(ctx, models[0].gradients(), {.op = ReduceOp::kSum});
        GradientSync second(ctx, models[1].gradients(), {.op = ReduceOp::kSum});
        for (int step = 0; step < kManySteps; ++step) {
          for (WholeModel& model : models) model.compute(ctx.rank(), step);
          models[0].mark_all(first);
          models[1].mark_all(second);
          const bool is_first_first = (ctx.rank() + step) % 2 == 0;
          (is_first_first ? first : second).wait();
          (is_first_first ? second : first).wait();
          for (const WholeModel& model : models) expect_sums(ctx, model, step);
        }
        EXPECT_FALSE(first.is_tuning());
        EXPECT_FALSE(second.is_tuning());
      },
      tuned(GetParam()));
}

}  // namespace
}  // namespace horo

#include <gmock/gmock.h>

#include <random>

#include "tests/api/gradients/gradient_model.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

class Accumulation : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Accumulation, ::testing::ValuesIn(kStepShapes), name_of_shape);

// Adds the values of a pass to those of the earlier passes.
void accumulate(WholeModel& model, int rank, int pass) {
  for (std::size_t t = 0; t < model.values.size(); ++t)
    for (std::size_t i = 0; i < model.values[t].size(); ++i)
      model.values[t][i] += WholeModel::value(rank, pass, t, i);
}

void clear(WholeModel& model) {
  for (auto& tensor : model.values) std::ranges::fill(tensor, 0.0f);
}

void expect_sum_of_passes(const WholeModel& model, int ranks, int first, int passes) {
  for (std::size_t t = 0; t < model.values.size(); ++t)
    for (std::size_t i = 0; i < model.values[t].size(); ++i) {
      float sum = 0;
      for (int r = 0; r < ranks; ++r)
        for (int p = first; p < first + passes; ++p) sum += WholeModel::value(r, p, t, i);
      ASSERT_EQ(model.values[t][i], sum) << "tensor " << t << " index " << i;
    }
}

TEST_P(Accumulation, ExchangesOnlyLastPass) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(
            ctx, model.gradients(),
            {.op = ReduceOp::kSum, .bucket_bytes = 3000, .backward_passes_per_step = 3});
        const std::uint64_t before = ctx.counters().collectives;
        for (int step = 0; step < 4; ++step) {
          clear(model);
          for (int pass = 0; pass < 3; ++pass) {
            accumulate(model, ctx.rank(), 3 * step + pass);
            model.mark_all(sync);
            EXPECT_EQ(sync.wait().was_exchanged, pass == 2);
            EXPECT_EQ(ctx.counters().collectives,
                      before + (step + (pass == 2 ? 1 : 0)) * sync.bucket_count());
          }
          expect_sum_of_passes(model, ctx.size(), 3 * step, 3);
        }
      },
      GetParam().options());
}

TEST_P(Accumulation, RanksMayDifferInNumberOfPasses) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 3000});
        for (int step = 0; step < 4; ++step) {
          clear(model);
          const int paused = (step + ctx.rank()) % 3;
          for (int pass = 0; pass < paused; ++pass) {
            const auto pause = sync.no_sync();
            accumulate(model, ctx.rank(), pass);
            model.mark_all(sync);
          }
          accumulate(model, ctx.rank(), paused);
          model.mark_all(sync);
          EXPECT_TRUE(sync.wait().was_exchanged);
          for (std::size_t t = 0; t < model.values.size(); ++t) {
            float sum = 0;
            for (int r = 0; r < ctx.size(); ++r)
              for (int p = 0; p <= (step + r) % 3; ++p) sum += WholeModel::value(r, p, t, 0);
            ASSERT_EQ(model.values[t][0], sum) << "tensor " << t << " step " << step;
          }
        }
      },
      GetParam().options());
}

// A gradient that only an early pass has produced is exchanged with the step.
TEST_P(Accumulation, StepCoversGradientsOfAllPasses) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(9, GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 2000});
        for (int step = 0; step < 3; ++step) {
          model.compute(ctx.rank(), step);
          {
            const auto pause = sync.no_sync();
            for (std::size_t t : {2u, 5u, 8u}) model.ready(sync, t);
            EXPECT_FALSE(sync.wait().was_exchanged);
            for (std::size_t t : {0u, 5u}) model.ready(sync, t);
          }
          for (std::size_t t : {1u, 3u, 4u, 6u, 7u, 8u}) model.ready(sync, t);
          sync.wait();
          expect_sum_of_passes(model, ctx.size(), step, 1);
        }
      },
      GetParam().options());
}

class AccumulationIn : public ::testing::TestWithParam<MemoryKind> {};
INSTANTIATE_TEST_SUITE_P(Memory, AccumulationIn, ::testing::ValuesIn(kMemoryKinds));

TEST_P(AccumulationIn, AcceptsOneMarkPerPass) {
  run_ranks(2, [](Context& ctx) {
    WholeModel model(3, GetParam());
    GradientSync sync(ctx, model.gradients(), {.backward_passes_per_step = 2});
    model.mark_all(sync);
    EXPECT_THAT(error_text<InvalidArgument>([&] { model.ready(sync, 1); }),
                HasSubstr("'layer1' was marked ready twice in one pass"));
    sync.wait();
    model.mark_all(sync);
    EXPECT_THAT(error_text<InvalidArgument>([&] { model.ready(sync, 2); }), HasSubstr("twice"));
    sync.wait();
    GradientSync other(ctx, model.gradients());
    {
      const auto pause = other.no_sync();
      model.ready(other, 0);
      EXPECT_THAT(error_text<InvalidArgument>([&] { model.ready(other, 0); }), HasSubstr("twice"));
    }
    model.ready(other, 1);
    EXPECT_THAT(error_text<InvalidArgument>([&] { other.wait(); }),
                HasSubstr("1 of 3 gradients: layer2"));
    model.ready(other, 2);
    other.wait();
  });
}

TEST_P(AccumulationIn, ReportsMisuse) {
  run_ranks(1, [](Context& ctx) {
    WholeModel model(3, GetParam());
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  GradientSync sync(ctx, model.gradients(), {.backward_passes_per_step = 0});
                }),
                HasSubstr("backward_passes_per_step is 0"));
    GradientSync counted(ctx, model.gradients(), {.backward_passes_per_step = 2});
    EXPECT_THAT(error_text<InvalidArgument>([&] { const auto pause = counted.no_sync(); }),
                HasSubstr("choose one"));
    GradientSync sync(ctx, model.gradients());
    model.ready(sync, 0);
    EXPECT_THAT(error_text<InvalidArgument>([&] { const auto pause = sync.no_sync(); }),
                HasSubstr("between ready() and wait()"));
    model.exchange(sync);
  });
}

TEST_P(AccumulationIn, SupportsNestedScopesAndMove) {
  run_ranks(2, [](Context& ctx) {
    WholeModel model(4, GetParam());
    GradientSync made(ctx, model.gradients(), {.op = ReduceOp::kSum});
    GradientSync sync = std::move(made);
    model.compute(ctx.rank(), 0);
    {
      const auto outer = sync.no_sync();
      {
        const auto inner = sync.no_sync();
        model.ready(sync, 3);
      }
      EXPECT_FALSE(model.exchange(sync).was_exchanged);
    }
    model.mark_all(sync);
    EXPECT_TRUE(sync.wait().was_exchanged);
    expect_sum_of_passes(model, 2, 0, 1);
  });
}

}  // namespace
}  // namespace horo

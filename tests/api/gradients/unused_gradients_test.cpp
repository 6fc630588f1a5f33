#include <gmock/gmock.h>

#include "tests/api/gradients/gradient_model.h"

namespace horo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_ranks;

class UnusedGradients : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, UnusedGradients, ::testing::ValuesIn(kStepShapes), name_of_shape);

// Rank r leaves out gradient 2 + (r + step) % 5; no rank uses gradient 1.
bool is_used(int rank, int step, std::size_t t) {
  return t != 1 && t != 2 + static_cast<std::size_t>((rank + step) % 5);
}

TEST_P(UnusedGradients, CountAsZeroAndAreReportedOnAllRanks) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(8, GetParam().memory);
        GradientSync sync(ctx, model.gradients(),
                          {.op = ReduceOp::kSum, .bucket_bytes = 1500, .find_unused = true});
        for (int step = 0; step < 6; ++step) {
          model.compute(ctx.rank(), step);
          for (std::size_t t = model.values.size(); t-- > 0;)
            if (is_used(ctx.rank(), step, t)) model.ready(sync, t);
          const StepReport& report = sync.wait();
          EXPECT_THAT(sync.unused(),
                      ElementsAre(1u, 2 + static_cast<std::size_t>((ctx.rank() + step) % 5)));
          std::vector<std::size_t> everywhere;
          for (std::size_t t = 0; t < model.values.size(); ++t) {
            bool is_used_somewhere = false;
            for (std::size_t i = 0; i < model.values[t].size(); ++i) {
              float sum = 0;
              for (int r = 0; r < ctx.size(); ++r)
                if (is_used(r, step, t)) sum += WholeModel::value(r, step, t, i);
              ASSERT_EQ(model.values[t][i], sum) << "tensor " << t << " index " << i;
              is_used_somewhere |= sum != 0;
            }
            if (!is_used_somewhere) everywhere.push_back(t);
          }
          EXPECT_EQ(report.unused_everywhere, everywhere);
          const auto by_rank = sync.unused_by_rank();
          ASSERT_EQ(by_rank.size(), static_cast<std::size_t>(ctx.size()));
          for (int r = 0; r < ctx.size(); ++r)
            EXPECT_THAT(by_rank[static_cast<std::size_t>(r)],
                        ElementsAre(1u, 2 + static_cast<std::size_t>((r + step) % 5)));
        }
        model.mark_all(sync);
        EXPECT_THAT(sync.wait().unused_everywhere, IsEmpty());
        EXPECT_THAT(sync.unused(), IsEmpty());
      },
      GetParam().options());
}

TEST_P(UnusedGradients, WorkInArenasAndOverSeveralPasses) {
  if (GetParam().memory == MemoryKind::kDevice) GTEST_SKIP() << "arenas are host memory";
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        const Arena arena = ctx.allocate(1 << 16);
        const std::span<float> memory(reinterpret_cast<float*>(arena.bytes().data()), 12000);
        std::vector<NamedTensor> gradients;
        for (std::size_t t = 0; t < 4; ++t)
          gradients.push_back(
              {"g" + std::to_string(t), TensorView(memory.subspan(t * 3000, 3000))});
        GradientSync sync(
            ctx, gradients,
            {.op = ReduceOp::kSum, .backward_passes_per_step = 2, .find_unused = true});
        for (int step = 0; step < 3; ++step) {
          std::ranges::fill(memory, static_cast<float>(ctx.rank() + 1));
          sync.ready(0);
          EXPECT_FALSE(sync.wait().was_exchanged);
          sync.ready(2);
          EXPECT_THAT(sync.wait().unused_everywhere, ElementsAre(1u, 3u));
          const auto sum = static_cast<float>(ctx.size() * (ctx.size() + 1) / 2);
          for (std::size_t i = 0; i < memory.size(); ++i)
            ASSERT_EQ(memory[i], i / 3000 % 2 == 0 ? sum : 0.0f) << i;
        }
      },
      GetParam().options());
}

TEST_P(UnusedGradients, AreZeroOverSeveralPasses) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(4, GetParam().memory);
        GradientSync sync(
            ctx, model.gradients(),
            {.op = ReduceOp::kSum, .backward_passes_per_step = 2, .find_unused = true});
        for (int step = 0; step < 3; ++step) {
          model.compute(ctx.rank(), step);
          model.ready(sync, 0);
          EXPECT_FALSE(sync.wait().was_exchanged);
          model.ready(sync, 2);
          EXPECT_THAT(sync.wait().unused_everywhere, ElementsAre(1u, 3u));
          for (std::size_t t = 0; t < model.values.size(); ++t) {
            float sum = 0;
            for (int r = 0; r < ctx.size(); ++r)
              sum += t % 2 == 0 ? WholeModel::value(r, step, t, 0) : 0;
            ASSERT_EQ(model.values[t][0], sum) << "tensor " << t;
          }
        }
      },
      GetParam().options());
}

TEST(UnusedGradients, AreAnErrorByDefault) {
  run_ranks(2, [](Context& ctx) {
    WholeModel model(3);
    GradientSync sync(ctx, model.gradients());
    sync.ready(1);
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.wait(); }),
                HasSubstr("2 of 3 gradients: layer0, layer2"));
    sync.exchange();
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  GradientSync minimum(ctx, model.gradients(),
                                       {.op = ReduceOp::kMin, .find_unused = true});
                }),
                HasSubstr("find_unused requires average, sum or adasum, not min"));
    EXPECT_THAT(error_text<MismatchError>([&] {
                  GradientSync differs(ctx, model.gradients(), {.find_unused = ctx.rank() == 1});
                }),
                HasSubstr("find_unused = false on rank 0"));
  });
}

}  // namespace
}  // namespace horo

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/api/gradients/gradient_model.h"

namespace horo {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::run_ranks;

class WeightedAverage : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, WeightedAverage, ::testing::ValuesIn(kStepShapes), name_of_shape);

double weight_of(int rank, int step) { return (rank + step) % 3 * 2.5; }

void expect_weighted(const WholeModel& model, int ranks, int step, float tolerance) {
  double total = 0;
  for (int r = 0; r < ranks; ++r) total += weight_of(r, step);
  for (std::size_t t = 0; t < model.values.size(); ++t)
    for (std::size_t i = 0; i < model.values[t].size(); ++i) {
      double sum = 0;
      for (int r = 0; r < ranks; ++r) sum += weight_of(r, step) * WholeModel::value(r, step, t, i);
      const double expected = total == 0 ? 0 : sum / total;
      ASSERT_NEAR(model.values[t][i], expected, tolerance * expected)
          << "tensor " << t << " index " << i << " step " << step;
    }
}

TEST_P(WeightedAverage, IgnoresValuesOfWeightZero) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.bucket_bytes = 3000, .weighted = true});
        for (int step = 0; step < 6; ++step) {
          model.compute(ctx.rank(), step);
          const double weight = weight_of(ctx.rank(), step);
          if (weight == 0) model.values[3][0] = std::numeric_limits<float>::quiet_NaN();
          sync.set_weight(weight);
          model.mark_all(sync);
          const StepReport& report = sync.wait();
          double total = 0;
          for (int r = 0; r < ctx.size(); ++r) total += weight_of(r, step);
          EXPECT_EQ(report.total_weight, total);
          expect_weighted(model, ctx.size(), step, 1e-6f);
        }
      },
      GetParam().options());
}

TEST_P(WeightedAverage, KeepsWeightsThroughUpdate) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        const StepMemory memory(GetParam().memory);
        auto g = memory.values<float>(7);
        const std::vector<NamedTensor> gradients = {{"g", memory.view(g)}};
        GradientSync sync(ctx, gradients, {.weighted = true});
        sync.set_weight(ctx.rank() + 1);
        sync.update(gradients);
        std::ranges::fill(g, static_cast<float>(ctx.rank()));
        const int n = ctx.size();
        EXPECT_EQ(memory.exchange(sync).total_weight, n * (n + 1) / 2);
        EXPECT_NEAR(g[6], (n - 1) * 2 / 3.0, 1e-5);
      },
      GetParam().options());
}

TEST_P(WeightedAverage, EqualWeightsMatchPlainAverage) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel plain(GetParam().memory);
        WholeModel weighted(GetParam().memory);
        for (std::size_t t = 0; t < plain.values.size(); ++t)
          for (std::size_t i = 0; i < plain.values[t].size(); ++i)
            plain.values[t][i] = 1.0f / WholeModel::value(ctx.rank(), 0, t, i);
        for (std::size_t t = 0; t < plain.values.size(); ++t)
          std::ranges::copy(plain.values[t], weighted.values[t].begin());
        GradientSync a(ctx, plain.gradients(), {.bucket_bytes = 3000});
        GradientSync b(ctx, weighted.gradients(), {.bucket_bytes = 3000, .weighted = true});
        b.set_weight(0.1);
        EXPECT_EQ(plain.exchange(a).total_weight, ctx.size());
        EXPECT_DOUBLE_EQ(weighted.exchange(b).total_weight, 0.1 * ctx.size());
        for (std::size_t t = 0; t < plain.values.size(); ++t)
          EXPECT_TRUE(std::ranges::equal(plain.values[t], weighted.values[t]));
      },
      GetParam().options());
}

class WeightedAverageIn : public ::testing::TestWithParam<MemoryKind> {};
INSTANTIATE_TEST_SUITE_P(Memory, WeightedAverageIn, ::testing::ValuesIn(kMemoryKinds));

TEST_P(WeightedAverageIn, StepWithoutDataSendsNoGradients) {
  run_ranks(2, [](Context& ctx) {
    const StepMemory memory(GetParam());
    auto x = memory.values<float>(1001, static_cast<float>(ctx.rank() + 1));
    const std::vector<NamedTensor> gradients = {{"x", memory.view(x)}};
    GradientSync sync(ctx, gradients, {.weighted = true});
    sync.set_weight(0);
    const std::uint64_t before = ctx.counters().payload_bytes;
    EXPECT_EQ(memory.exchange(sync).total_weight, 0);
    EXPECT_THAT(x, Each(0.0f));
    EXPECT_EQ(ctx.counters().payload_bytes, before);
    if (!memory.is_on_device()) {
      EXPECT_EQ(sync.compression_report().total.bytes_sent, 0u);
    }
    std::ranges::fill(x, static_cast<float>(ctx.rank() + 1));
    sync.set_weight(2);
    EXPECT_EQ(memory.exchange(sync).total_weight, 4);
    EXPECT_THAT(x, Each(1.5f));
    if (!memory.is_on_device()) {
      EXPECT_GT(sync.compression_report().total.bytes_sent, 0u);
    }
  });
}

TEST_P(WeightedAverageIn, HalfPrecisionStaysInRange) {
  run_ranks(4, [](Context& ctx) {
    const StepMemory memory(GetParam());
    auto half = memory.values<Float16>(3001, Float16(60000.0f));
    auto bfloats = memory.values<BFloat16>(2001, BFloat16(static_cast<float>(ctx.rank())));
    auto real = memory.values<double>(1001, ctx.rank());
    const std::vector<NamedTensor> gradients = {{"half", memory.view(half)},
                                                {"bfloats", memory.view(bfloats)},
                                                {"real", memory.view(real)}};
    GradientSync sync(ctx, gradients, {.weighted = true});
    sync.set_weight(ctx.rank() == 3 ? 3 : ctx.rank() == 2 ? 1 : 0);
    memory.exchange(sync);
    EXPECT_EQ(static_cast<float>(half[3000]), 60000.0f);
    EXPECT_EQ(static_cast<float>(bfloats[2000]), 2.75f);
    EXPECT_DOUBLE_EQ(real[1000], 2.75);
  });
}

TEST(WeightedAverage, SupportsCompression) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(64 * 48);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((i / 48 + 1) * (i % 48 + 2) *
                                static_cast<std::size_t>(ctx.rank() + 1));
    const std::vector<NamedTensor> gradients = {{"x", TensorView(x.data(), Shape{64, 48})}};
    GradientSync sync(
        ctx, gradients,
        {.compression = {.kind = Compression::Kind::kPowerSgd, .rank = 2}, .weighted = true});
    sync.set_weight(ctx.rank());
    sync.exchange();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected =
          static_cast<double>((i / 48 + 1) * (i % 48 + 2)) * (1 * 2 + 2 * 3) / 3.0;
      ASSERT_NEAR(x[i], expected, 1e-3 * expected) << i;
    }
  });
}

TEST(WeightedAverage, ReportsMisuse) {
  run_ranks(2, [](Context& ctx) {
    WholeModel model(3);
    GradientSync plain(ctx, model.gradients());
    EXPECT_THAT(error_text<InvalidArgument>([&] { plain.set_weight(1); }),
                HasSubstr("needs GradientSyncOptions::weighted"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { plain.join(); }), HasSubstr("join() needs"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  GradientSync sum(ctx, model.gradients(),
                                   {.op = ReduceOp::kSum, .weighted = true});
                }),
                HasSubstr("weighted requires average, not sum"));
    std::vector<std::int32_t> integers(3);
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  GradientSync sync(ctx, std::vector<NamedTensor>{{"i", TensorView(integers)}},
                                    {.weighted = true});
                }),
                HasSubstr("gradient 'i' is int32"));
    GradientSync sync(ctx, model.gradients(), {.weighted = true});
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.set_weight(-1); }), HasSubstr("at least 0"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.set_weight(1e301); }),
                HasSubstr("at most 1e+300"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.set_weight(std::nan("")); }),
                HasSubstr("at most 1e+300"));
    sync.ready(0);
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.set_weight(1); }), HasSubstr("between"));
    sync.exchange();
  });
}

class JoinPlan : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, JoinPlan, ::testing::ValuesIn(kStepShapes), name_of_shape);

// Rank r has 3 + 2 r steps in even epochs; in odd ones the order is reversed.
int steps_of(int rank, int ranks, int epoch) {
  return 3 + 2 * (epoch % 2 == 0 ? rank : ranks - 1 - rank);
}

TEST_P(JoinPlan, AveragesOverRemainingRanks) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(6, GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.bucket_bytes = 1000, .weighted = true});
        EXPECT_EQ(model.memory.join(sync), -1);
        for (int epoch = 0; epoch < 3; ++epoch) {
          int step = 0;
          const auto expect_average = [&] {
            for (std::size_t t = 0; t < model.values.size(); ++t) {
              double sum = 0;
              int live = 0;
              for (int r = 0; r < ctx.size(); ++r)
                if (step < steps_of(r, ctx.size(), epoch)) {
                  sum += WholeModel::value(r, step, t, 0);
                  ++live;
                }
              ASSERT_NEAR(model.values[t][0], sum / live, 1e-5 * sum) << "step " << step;
            }
            ++step;
          };
          while (step < steps_of(ctx.rank(), ctx.size(), epoch)) {
            model.compute(ctx.rank(), step);
            model.mark_all(sync);
            sync.wait();
            expect_average();
          }
          const int last = model.memory.join(sync, [&](const StepReport& report) {
            EXPECT_GT(report.total_weight, 0);
            expect_average();
          });
          EXPECT_EQ(last, epoch % 2 == 0 ? ctx.size() - 1 : 0);
          EXPECT_EQ(step, 3 + 2 * (ctx.size() - 1));
        }
      },
      GetParam().options());
}

class JoinPlanIn : public ::testing::TestWithParam<MemoryKind> {};
INSTANTIATE_TEST_SUITE_P(Memory, JoinPlanIn, ::testing::ValuesIn(kMemoryKinds));

TEST_P(JoinPlanIn, ExchangesPassesOfUnfinishedStep) {
  run_ranks(2, [](Context& ctx) {
    const StepMemory memory(GetParam());
    auto x = memory.values<float>(1000);
    const std::vector<NamedTensor> gradients = {{"x", memory.view(x)}};
    GradientSync sync(ctx, gradients, {.backward_passes_per_step = 2, .weighted = true});
    // Rank 0 has three passes, rank 1 four.
    for (int pass = 0; pass < 3 + ctx.rank(); ++pass) {
      if (pass % 2 == 0) std::ranges::fill(x, 0.0f);
      for (float& value : x) value += static_cast<float>(ctx.rank() + 1);
      sync.set_weight(pass % 2 + 1);
      memory.ready(sync, 0);
      sync.wait();
    }
    // The weights of the last step are 1 and 2.
    if (ctx.rank() == 1) {
      EXPECT_NEAR(x[999], (1 * 1 + 2 * 4) / 3.0, 1e-6);
    }
    int steps = 0;
    memory.join(sync, [&](const StepReport& report) {
      EXPECT_NEAR(x[0], (1 * 1 + 2 * 4) / 3.0, 1e-6);
      EXPECT_EQ(report.total_weight, 3);
      ++steps;
    });
    EXPECT_EQ(steps, 1 - ctx.rank());
    EXPECT_EQ(x[999], 0.0f);
  });
}

}  // namespace
}  // namespace horo

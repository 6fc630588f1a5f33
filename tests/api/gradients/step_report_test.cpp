#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "tests/api/gradients/gradient_model.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class StepReports : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, StepReports, ::testing::ValuesIn(kStepShapes), name_of_shape);

double norm_of_average(const WholeModel& model, int ranks, int step, std::size_t metric) {
  double sum = 0;
  for (std::size_t t = 0; t < model.values.size(); ++t)
    for (std::size_t i = 0; t != metric && i < model.values[t].size(); ++i) {
      double value = 0;
      for (int r = 0; r < ranks; ++r) value += WholeModel::value(r, step, t, i);
      sum += value / ranks * value / ranks;
    }
  return std::sqrt(sum);
}

TEST_P(StepReports, ClippingBitsDoNotDependOnRankOrBuckets) {
  std::mutex mutex;
  std::vector<std::vector<StepMemory::Values<float>>> results;
  std::vector<double> norms;
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{2500}, std::size_t{1} << 20})
    run_ranks(
        GetParam().ranks,
        [&](Context& ctx) {
          WholeModel model(GetParam().memory);
          GradientSync sync(
              ctx, model.gradients(),
              {.bucket_bytes = bucket_bytes, .clip_norm = 5.0, .metrics = {"layer4"}});
          double latest_norm = 0;
          for (int step = 0; step < 3; ++step) {
            model.compute(ctx.rank(), step);
            model.mark_all(sync);
            const StepReport& report = sync.wait();
            EXPECT_TRUE(report.was_clipped);
            EXPECT_TRUE(report.is_finite);
            latest_norm = report.norm;
            const double norm = norm_of_average(model, ctx.size(), step, 4);
            EXPECT_NEAR(report.norm, norm, 1e-6 * norm);
            double clipped = 0;
            for (std::size_t t = 0; t < model.values.size(); ++t)
              for (const float value : model.values[t]) clipped += t == 4 ? 0.0 : value * value;
            EXPECT_NEAR(std::sqrt(clipped), 5.0, 1e-4);
            float metric = 0;
            for (int r = 0; r < ctx.size(); ++r) metric += WholeModel::value(r, step, 4, 0);
            EXPECT_NEAR(model.values[4][0], metric / static_cast<float>(ctx.size()), 1e-4f);
          }
          const std::scoped_lock lock(mutex);
          results.push_back(model.values);
          norms.push_back(latest_norm);
        },
        GetParam().options());
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(norms[i], norms[0]);
    EXPECT_EQ(results[i], results[0]);
  }
}

TEST_P(StepReports, DoesNotClipSmallGradients) {
  run_ranks(
      GetParam().ranks,
      [&](Context& ctx) {
        const StepMemory memory(GetParam().memory);
        auto x = memory.values<float>(1, 3.0f);
        auto y = memory.values<BFloat16>(1, BFloat16(4.0f));
        const std::vector<NamedTensor> gradients = {{"x", memory.view(x)}, {"y", memory.view(y)}};
        GradientSync sync(ctx, gradients, {.clip_norm = 5.0});
        const StepReport& report = memory.exchange(sync);
        EXPECT_EQ(report.norm, 5.0);
        EXPECT_FALSE(report.was_clipped);
        EXPECT_EQ(x[0], 3.0f);
        y[0] = BFloat16(8.0f);
        x[0] = 6;
        EXPECT_TRUE(memory.exchange(sync).was_clipped);
        EXPECT_EQ(report.norm, 10.0);
        EXPECT_EQ(x[0], 3.0f);
        EXPECT_EQ(static_cast<float>(y[0]), 4.0f);
      },
      GetParam().options());
}

TEST_P(StepReports, AllRanksNameSourceOfNonFiniteValues) {
  run_ranks(
      GetParam().ranks,
      [&](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(),
                          {.bucket_bytes = 2500, .clip_norm = 1.0, .check_finite = true});
        const int source_rank = ctx.size() - 1;
        for (int step = 0; step < 6; ++step) {
          model.compute(ctx.rank(), step);
          const bool is_bad = step % 2 == 1;
          if (is_bad && ctx.rank() == source_rank) {
            // Two gradients have such a value; the report names the first of the list.
            model.values[7][5] = kNan;
            model.values[2][11] = step == 1 ? -kInfinity : kNan;
            model.values[2][30] = kInfinity;
          }
          model.mark_all(sync);
          const StepReport& report = sync.wait();
          EXPECT_EQ(report.is_finite, !is_bad);
          EXPECT_EQ(report.was_clipped, !is_bad);
          ASSERT_EQ(report.non_finite.has_value(), is_bad);
          if (!is_bad) continue;
          EXPECT_EQ(report.non_finite->rank, source_rank);
          EXPECT_EQ(report.non_finite->gradient, 2u);
          EXPECT_EQ(report.non_finite->index, 11u);
          EXPECT_THAT(report.non_finite->describe(),
                      HasSubstr("gradient 'layer2' of rank " + std::to_string(source_rank) +
                                " is " + (step == 1 ? "-inf" : "nan") + " at index 11"));
        }
      },
      GetParam().options());
}

class StepReportsIn : public ::testing::TestWithParam<MemoryKind> {};
INSTANTIATE_TEST_SUITE_P(Memory, StepReportsIn, ::testing::ValuesIn(kMemoryKinds));

TEST_P(StepReportsIn, OverflowOfSumNamesNoRank) {
  run_ranks(2, [](Context& ctx) {
    const StepMemory memory(GetParam());
    auto x = memory.values<float>(100, 1.0f);
    x[42] = 3e38f;
    const std::vector<NamedTensor> gradients = {{"x", memory.view(x)}};
    GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum, .check_finite = true});
    const StepReport& report = memory.exchange(sync);
    EXPECT_FALSE(report.is_finite);
    ASSERT_TRUE(report.non_finite.has_value());
    EXPECT_EQ(report.non_finite->rank, -1);
    EXPECT_EQ(report.non_finite->describe(),
              "gradient 'x' became inf at index 42 when it was reduced");
  });
}

// The check uses the value of the program, without the weight.
TEST_P(StepReports, WeightsNeitherCauseNorHideInfinity) {
  if (GetParam().ranks == 1) return;
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        const int last = ctx.size() - 1;
        const StepMemory memory(GetParam().memory);
        auto x = memory.values<float>(1003);
        auto y = memory.values<double>(77);
        const std::vector<NamedTensor> gradients = {{"x", memory.view(x)}, {"y", memory.view(y)}};
        GradientSync sync(ctx, gradients, {.weighted = true, .check_finite = true});
        sync.set_weight(ctx.rank() == last ? 1e6 : ctx.rank() == 0 ? 1 : 0);
        const auto step = [&](auto change) -> const StepReport& {
          std::ranges::fill(x, 3e38f);
          std::ranges::fill(y, 1.7e308);
          change();
          return memory.exchange(sync);
        };
        EXPECT_TRUE(step([] {}).is_finite) << "the average of values in range is in range";
        EXPECT_NEAR(x[1002], 3e38f, 3e38f * 1e-6f);
        EXPECT_NEAR(y[76], 1.7e308, 1.7e308 * 1e-6);
        EXPECT_EQ(step([&] {
                    if (ctx.rank() == 0) x[5] = -kInfinity;
                  }).non_finite->describe(),
                  "gradient 'x' of rank 0 is -inf at index 5");
        sync.set_weight(ctx.rank() == last ? 1e300 : ctx.rank() == 0 ? 1e-300 : 0);
        EXPECT_TRUE(step([&] {
                      if (ctx.rank() == 0) x[5] = kInfinity;
                    }).is_finite)
            << "a share that is 0 contributes zeros";
        sync.set_weight(ctx.rank() == last ? 1 : 0);
        EXPECT_TRUE(step([&] {
                      if (ctx.rank() == 0) x[5] = kNan;
                    }).is_finite);
        EXPECT_EQ(step([&] {
                    if (ctx.rank() == 0) x[5] = kNan;
                    if (ctx.rank() == last) y[7] = kInfinity;
                  }).non_finite->rank,
                  last);
      },
      GetParam().options());
}

// Compression keeps residuals of an average, so a share is multiplied by the number of ranks.
TEST(StepReports, OverflowByWeightNamesNoRank) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(64 * 64, 3e38f);
    const std::vector<NamedTensor> gradients = {{"x", TensorView(x.data(), Shape{64, 64})}};
    GradientSync sync(ctx, gradients,
                      {.compression = {.kind = Compression::Kind::kPowerSgd, .rank = 2},
                       .weighted = true,
                       .check_finite = true});
    sync.set_weight(ctx.rank() == 1 ? 3 : 1);
    const StepReport& report = sync.exchange();
    ASSERT_TRUE(report.non_finite.has_value());
    EXPECT_EQ(report.non_finite->rank, -1);
  });
}

TEST_P(StepReportsIn, ChecksEveryType) {
  run_ranks(2, [](Context& ctx) {
    const StepMemory memory(GetParam());
    auto half = memory.values<Float16>(5000, Float16(1.0f));
    auto bfloats = memory.values<BFloat16>(5000, BFloat16(1.0f));
    auto real = memory.values<double>(100, 1e300);  // the squares overflow, the values do not
    auto integers = memory.values<std::int32_t>(7, 1);
    const std::vector<NamedTensor> gradients = {{"half", memory.view(half)},
                                                {"bfloats", memory.view(bfloats)},
                                                {"real", memory.view(real)},
                                                {"integers", memory.view(integers)}};
    GradientSync sync(ctx, gradients, {.check_finite = true});
    EXPECT_TRUE(memory.exchange(sync).is_finite);
    if (ctx.rank() == 1) half[4999] = Float16(kInfinity);
    EXPECT_EQ(memory.exchange(sync).non_finite->describe(),
              "gradient 'half' of rank 1 is inf at index 4999");
    std::ranges::fill(half, Float16(1.0f));
    if (ctx.rank() == 0) bfloats[2049] = BFloat16(kNan);
    EXPECT_THAT(memory.exchange(sync).non_finite->describe(),
                HasSubstr("'bfloats' of rank 0 is nan"));
    std::ranges::fill(bfloats, BFloat16(1.0f));
    if (ctx.rank() == 0) real[99] = -std::numeric_limits<double>::infinity();
    EXPECT_THAT(memory.exchange(sync).non_finite->describe(),
                HasSubstr("'real' of rank 0 is -inf"));
  });
}

TEST(StepReports, SupportsAdasumAndCompression) {
  for (const bool compressed : {false, true})
    run_ranks(3, [&](Context& ctx) {
      std::vector<float> x(64 * 64);
      GradientSyncOptions options{.check_finite = true};
      if (compressed)
        options.compression = {.kind = Compression::Kind::kPowerSgd, .rank = 2};
      else
        options.op = ReduceOp::kAdasum;
      const std::vector<NamedTensor> gradients = {{"x", TensorView(x.data(), Shape{64, 64})}};
      GradientSync sync(ctx, gradients, options);
      for (int step = 0; step < 4; ++step) {
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<float>(i % 7 + static_cast<std::size_t>(ctx.rank()));
        if (step == 2 && ctx.rank() == 1) x[77] = kNan;
        const StepReport& report = sync.exchange();
        EXPECT_EQ(report.is_finite, step != 2);
        if (step == 2) {
          EXPECT_EQ(report.non_finite->rank, 1);
          EXPECT_EQ(report.non_finite->index, 77u);
        }
      }
    });
}

TEST_P(StepReportsIn, PlainPlansReportExchange) {
  run_ranks(3, [](Context& ctx) {
    WholeModel model(3, GetParam());
    GradientSync sync(ctx, model.gradients());
    const StepReport& report = model.exchange(sync);
    EXPECT_TRUE(report.was_exchanged);
    EXPECT_EQ(report.total_weight, 3);
    EXPECT_TRUE(std::isnan(report.norm));
    EXPECT_TRUE(report.is_finite);
  });
}

TEST(StepReports, ReportsMisuse) {
  run_ranks(2, [](Context& ctx) {
    WholeModel model(3);
    const auto refuse = [&](const GradientSyncOptions& options) {
      return error_text<InvalidArgument>(
          [&] { GradientSync sync(ctx, model.gradients(), options); });
    };
    EXPECT_THAT(refuse({.clip_norm = 0}), HasSubstr("clip_norm is 0"));
    EXPECT_THAT(refuse({.op = ReduceOp::kMax, .check_finite = true}),
                HasSubstr("check_finite requires"));
    EXPECT_THAT(refuse({.metrics = {"loss"}}), HasSubstr("metrics names 'loss'"));
    EXPECT_THAT(error_text<MismatchError>([&] {
                  GradientSync sync(ctx, model.gradients(), {.clip_norm = 1.0 + ctx.rank()});
                }),
                HasSubstr("clip_norm = 2 on rank 1"));
  });
}

TEST_P(StepReportsIn, DoesNotClipIfNormOverflows) {
  run_ranks(2, [](Context& ctx) {
    const StepMemory memory(GetParam());
    auto g = memory.values<double>(3, 1e200);
    const std::vector<NamedTensor> gradients = {{"g", memory.view(g)}};
    GradientSync sync(ctx, gradients, {.clip_norm = 1.0});
    const StepReport& report = memory.exchange(sync);
    EXPECT_TRUE(report.is_finite);
    EXPECT_FALSE(report.was_clipped);
    EXPECT_EQ(g[2], 1e200);
  });
}

}  // namespace
}  // namespace horo

#include <gtest/gtest.h>

#include <cmath>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/compression/compressed_set.h"
#include "tests/api/compression/compression_kinds.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using testing::run_ranks;
using Kind = Compression::Kind;

class CompressionRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CompressionRanks,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 7, 8})));

TEST_P(CompressionRanks, FullRankIsExact) {
  run_ranks(GetParam(), [](Context& ctx) {
    // Columns are combinations of the same three vectors on all ranks.
    std::vector<float> matrix(37 * 53);
    for (std::size_t i = 0; i < 37; ++i)
      for (std::size_t j = 0; j < 53; ++j)
        for (std::size_t k = 0; k < 3; ++k)
          matrix[i * 53 + j] +=
              std::sin(static_cast<float>((i + 1) * (k + 1))) *
              std::cos(static_cast<float>((j + 2) * (k + 3)) + static_cast<float>(ctx.rank()));
    std::vector<float> exact = matrix;
    ctx.allreduce(TensorView(exact), {.name = "exact"});
    const std::vector<NamedTensor> gradients = {{"m", TensorView(matrix.data(), Shape{37, 53})}};
    Compression compression = kPowerSgd;
    compression.rank = 5;
    GradientSync sync(ctx, gradients, {.compression = compression});
    sync.exchange();
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(matrix[i], exact[i], 2e-5f) << i;
    EXPECT_LT(sync.compression_report().latest_step.relative_error(), 1e-5);
  });
}

TEST_P(CompressionRanks, SendingEverythingMatchesAllreduce) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage})
    run_ranks(GetParam(), [op](Context& ctx) {
      CompressedSet exact(ctx.rank());
      CompressedSet compressed(ctx.rank());
      GradientSync plain(ctx, exact.gradients(), {.op = op, .bucket_bytes = 3000});
      GradientSync sync(
          ctx, compressed.gradients(),
          {.op = op, .bucket_bytes = 3000, .compression = {.kind = Kind::kTopK, .fraction = 1}});
      for (int step = 0; step < 3; ++step) {
        exact.compute(step);
        compressed.compute(step);
        plain.exchange();
        sync.exchange();
        EXPECT_EQ(compressed.all_values(), exact.all_values());
        EXPECT_EQ(sync.compression_report().latest_step.squared_error, 0);
      }
    });
}

TEST_P(CompressionRanks, AppliedUpdatesSumToTrueGradients) {
  for (const Compression& compression : {kPowerSgd, kTopK, kInt8})
    run_ranks(GetParam(), [&](Context& ctx) {
      CompressedSet set(ctx.rank());
      CompressedSet truth(ctx.rank());
      GradientSync sync(ctx, set.gradients(), {.compression = compression});
      GradientSync exact(ctx, truth.gradients(), {});
      std::vector<double> applied(set.all_values().size());
      std::vector<double> expected_sum(applied.size());
      const auto add = [](std::vector<double>& sums, const std::vector<float>& values) {
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
      };
      const auto missing = [&] {
        double difference = 0;
        double size = 0;
        for (std::size_t i = 0; i < applied.size(); ++i) {
          difference += (applied[i] - expected_sum[i]) * (applied[i] - expected_sum[i]);
          size += expected_sum[i] * expected_sum[i];
        }
        return std::sqrt(difference / size);
      };
      for (int step = 0; step < 10; ++step) {
        set.compute(step);
        truth.compute(step);
        sync.exchange();
        exact.exchange();
        add(applied, set.all_values());
        add(expected_sum, truth.all_values());
      }
      EXPECT_GT(missing(), compression.kind == Kind::kInt8 ? 3e-5 : 0.01);
      // Steps with zero gradients exchange the remaining residuals.
      for (int step = 0; step < 40; ++step) {
        set.fill(0);
        sync.exchange();
        add(applied, set.all_values());
      }
      EXPECT_LT(missing(), 1e-5);
    });
}

TEST_P(CompressionRanks, LeastSquaresConverges) {
  for (const Compression& compression : {kPowerSgd, kTopK}) {
    std::vector<double> losses(static_cast<std::size_t>(GetParam()));
    run_ranks(GetParam(), [&](Context& ctx) {
      LeastSquares problem(ctx.rank());
      GradientSync sync(ctx, problem.gradients(), {.compression = compression});
      const double first = problem.loss();
      for (int step = 0; step < 600; ++step) {
        problem.compute_gradient();
        sync.exchange();
        problem.descend(0.1f);
      }
      EXPECT_LT(problem.loss(), 1e-3 * first);
      losses[static_cast<std::size_t>(ctx.rank())] = problem.loss();
    });
    for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
  }
}

// The values of all ranks after some steps.
std::vector<std::vector<float>> train(int ranks, const Compression& compression,
                                      std::size_t bucket_bytes, const std::string& setting = {}) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(ranks));
  testing::RunOptions options;
  if (!setting.empty()) options.environment = {setting, "HORO_SERVERS=2"};
  run_ranks(
      ranks,
      [&](Context& ctx) {
        CompressedSet set(ctx.rank());
        GradientSync sync(ctx, set.gradients(),
                          {.bucket_bytes = bucket_bytes, .compression = compression});
        for (int step = 0; step < 5; ++step) {
          set.compute(step);
          for (std::size_t i = set.gradients().size(); i-- > 0;) sync.ready(i);
          sync.wait();
        }
        values[static_cast<std::size_t>(ctx.rank())] = set.all_values();
      },
      options);
  return values;
}

TEST_P(CompressionRanks, IsReproducibleOnAllRanks) {
  for (const Compression& compression : {kPowerSgd, kTopK, kInt8}) {
    const auto values = train(GetParam(), compression, 4000);
    for (const auto& of_rank : values) EXPECT_EQ(of_rank, values[0]);
    EXPECT_EQ(train(GetParam(), compression, 4000), values);
    EXPECT_EQ(train(GetParam(), compression, 1 << 20), values) << "packing matters";
  }
}

TEST(Compression, AlgorithmsAgreeApproximately) {
  for (const Compression& compression : {kPowerSgd, kTopK, kInt8}) {
    const auto expected = train(4, compression, 4000);
    for (const char* setting :
         {"HORO_ALGORITHM=shared_memory", "HORO_ALGORITHM=ring", "HORO_ALGORITHM=hierarchical",
          "HORO_ALGORITHM=parameter_server", "HORO_RANKS_PER_NODE=2", "HORO_RANKS_PER_NODE=1"}) {
      const auto values = train(4, compression, 4000, setting);
      for (const auto& of_rank : values) EXPECT_EQ(of_rank, values[0]) << setting;
      for (std::size_t i = 0; i < expected[0].size(); ++i)
        ASSERT_NEAR(values[0][i], expected[0][i], 1e-3f) << setting << " index " << i;
    }
  }
}

}  // namespace
}  // namespace horo

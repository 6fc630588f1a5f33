#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/compression/compression_kinds.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using testing::run_ranks;

constexpr std::size_t kBlock = 256;  // values that share a scale
constexpr std::size_t kSizes[] = {1, 255, 256, 257, 3, 2000};

/// Gradients whose blocks have different magnitudes, also between ranks.
class BlockGradients {
 public:
  explicit BlockGradients(int rank) : rank_(rank) {
    for (const std::size_t size : kSizes) values_.emplace_back(size);
  }
  std::vector<NamedTensor> gradients() {
    std::vector<NamedTensor> named;
    for (std::size_t t = 0; t < values_.size(); ++t)
      named.push_back({"g" + std::to_string(t), TensorView(values_[t])});
    return named;
  }
  static float value(int rank, std::size_t tensor, std::size_t i) {
    const double magnitude = std::pow(10.0, static_cast<double>((i / kBlock + tensor) % 5) - 3);
    return static_cast<float>(magnitude *
                              std::sin(static_cast<double>((i + 1) * (tensor + 2)) + 0.7 * rank));
  }
  void compute() {
    for (std::size_t t = 0; t < values_.size(); ++t)
      for (std::size_t i = 0; i < values_[t].size(); ++i) values_[t][i] = value(rank_, t, i);
  }
  std::vector<std::vector<float>>& values() { return values_; }

 private:
  int rank_;
  std::vector<std::vector<float>> values_;
};

/// The exact results, and the largest error of each: half a step of rounding on each rank and of
/// the result, for the block of the element.
struct Expected {
  std::vector<std::vector<double>> exact, largest_error;

  Expected(int ranks, ReduceOp op) {
    const double share = op == ReduceOp::kAverage ? 1.0 / ranks : 1;
    for (std::size_t t = 0; t < std::size(kSizes); ++t) {
      auto& sums = exact.emplace_back(kSizes[t]);
      auto& errors = largest_error.emplace_back(kSizes[t]);
      for (std::size_t first = 0; first < kSizes[t]; first += kBlock) {
        const std::size_t end = std::min(first + kBlock, kSizes[t]);
        double of_ranks = 0, of_result = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          double largest = 0;
          for (std::size_t i = first; i < end; ++i) {
            const double value = BlockGradients::value(rank, t, i);
            sums[i] += share * value;
            largest = std::max(largest, std::abs(value));
          }
          of_ranks += share * largest;
        }
        for (std::size_t i = first; i < end; ++i)
          of_result = std::max(of_result, std::abs(sums[i]));
        std::fill(errors.begin() + static_cast<std::ptrdiff_t>(first),
                  errors.begin() + static_cast<std::ptrdiff_t>(end),
                  (of_ranks + of_result + of_ranks / 254) / 254 * 1.0001);
      }
    }
  }
};

class Int8Compression : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Int8Compression,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4})));

TEST_P(Int8Compression, RoundsOnceOnEachRankAndInTheResult) {
  const int ranks = GetParam();
  for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum}) {
    const Expected expected(ranks, op);
    run_ranks(ranks, [&](Context& ctx) {
      BlockGradients set(ctx.rank());
      GradientSync sync(ctx, set.gradients(), {.op = op, .compression = kInt8});
      set.compute();
      sync.exchange();
      double squared = 0;
      for (std::size_t t = 0; t < set.values().size(); ++t)
        for (std::size_t i = 0; i < set.values()[t].size(); ++i) {
          const double error = set.values()[t][i] - expected.exact[t][i];
          ASSERT_LE(std::abs(error), expected.largest_error[t][i]) << t << " " << i;
          squared += error * error;
        }
      EXPECT_GT(squared, 0);
      const CompressionFigures figures = sync.compression_report().latest_step;
      EXPECT_GT(figures.relative_error(), 1e-4);
      EXPECT_LT(figures.relative_error(), 1e-2);
      if (ranks > 1) {
        EXPECT_GT(figures.compression_rate(), ranks == 4 ? 3.5 : 3);
      }
    });
  }
}

/// The largest difference between the mean of the results of equal gradients over `steps` and the
/// exact result, in units of the largest error of a step.
double mean_error(int ranks, const Compression& compression, int steps) {
  double largest = 0;
  const Expected expected(ranks, ReduceOp::kAverage);
  run_ranks(ranks, [&](Context& ctx) {
    BlockGradients set(ctx.rank());
    GradientSync sync(ctx, set.gradients(), {.compression = compression});
    std::vector<std::vector<double>> sums;
    for (const auto& values : set.values()) sums.emplace_back(values.size());
    for (int step = 0; step < steps; ++step) {
      set.compute();
      sync.exchange();
      for (std::size_t t = 0; t < sums.size(); ++t)
        for (std::size_t i = 0; i < sums[t].size(); ++i) sums[t][i] += set.values()[t][i];
    }
    if (ctx.rank() != 0) return;
    for (std::size_t t = 0; t < sums.size(); ++t)
      for (std::size_t i = 0; i < sums[t].size(); ++i)
        largest = std::max(largest, std::abs(sums[t][i] / steps - expected.exact[t][i]) /
                                        expected.largest_error[t][i]);
  });
  return largest;
}

TEST_P(Int8Compression, MeanOverStepsIsUnbiasedWithResiduals) {
  // The sum of the results differs from the exact sum by the latest residuals only.
  constexpr int kSteps = 40;
  EXPECT_LT(mean_error(GetParam(), kInt8, kSteps), 2.0 / kSteps);
  Compression forgetful = kInt8;
  forgetful.error_feedback = false;
  EXPECT_GT(mean_error(GetParam(), forgetful, kSteps), 0.2);
}

TEST(Int8CompressionValues, ZerosAndTinyValuesStayFinite) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(300, 0.0f);
    x[280] = std::numeric_limits<float>::denorm_min();
    GradientSync sync(ctx, std::vector<NamedTensor>{{"x", TensorView(x)}}, {.compression = kInt8});
    sync.exchange();
    for (const float value : x) EXPECT_EQ(value, 0);
    constexpr float kLarge = 0.9f * std::numeric_limits<float>::max();
    x.assign(300, kLarge);
    sync.exchange();
    for (const float value : x) EXPECT_NEAR(value / kLarge, 1, 1e-5);
  });
}

TEST(Int8CompressionValues, NonFiniteValueMarksItsBlockOnly) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(1000, 1.0f);
    if (ctx.rank() == 2) x[300] = std::numeric_limits<float>::infinity();
    GradientSync sync(ctx, std::vector<NamedTensor>{{"x", TensorView(x)}}, {.compression = kInt8});
    sync.exchange();
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(x[i]), i / kBlock == 1) << i;
    EXPECT_EQ(sync.compression_report().latest_step.non_finite, 1u);
  });
}

}  // namespace
}  // namespace horo

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/compression/compressed_set.h"
#include "tests/api/compression/compression_kinds.h"

namespace horo {
namespace {

using testing::run_ranks;
using Kind = Compression::Kind;

TEST(Compression, SendsOtherTypesAndSmallTensorsUncompressed) {
  run_ranks(3, [](Context& ctx) {
    for (const Compression& compression : {kPowerSgd, kTopK}) {
      const auto rank = static_cast<float>(ctx.rank());
      std::vector<double> d(32 * 32);
      std::vector<Float16> h(32 * 32);
      std::vector<float> bias(100);
      for (std::size_t i = 0; i < d.size(); ++i) {
        d[i] = static_cast<double>(i) + ctx.rank();
        h[i] = Float16(static_cast<float>(i % 64) + rank);
      }
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) + rank;
      const std::vector<NamedTensor> gradients = {{"d", TensorView(d.data(), Shape{32, 32})},
                                                  {"h", TensorView(h.data(), Shape{32, 32})},
                                                  {"bias", TensorView(bias)}};
      GradientSync sync(ctx, gradients, {.compression = compression});
      sync.exchange();
      for (std::size_t i = 0; i < d.size(); ++i) {
        ASSERT_EQ(d[i], static_cast<double>(i) + 1);
        ASSERT_EQ(static_cast<float>(h[i]), static_cast<float>(i % 64) + 1);
      }
      const bool is_exact = compression.kind == Kind::kPowerSgd;
      for (std::size_t i = 0; i < bias.size(); ++i)
        ASSERT_EQ(bias[i], is_exact || i >= 95 ? static_cast<float>(i) + 1 : 0);
    }
  });
}

TEST(Compression, HandlesEveryShape) {
  const std::vector<Shape> shapes = {{},     {1, 500},      {500, 1}, {0},       {0, 7},
                                     {7, 0}, {16, 8, 3, 3}, {40, 30}, {1, 1, 1}, {3, 100}};
  for (const Compression& compression : {kPowerSgd, kTopK})
    run_ranks(3, [&](Context& ctx) {
      std::vector<std::vector<float>> values;
      std::vector<NamedTensor> gradients;
      for (const Shape& shape : shapes) {
        auto& tensor = values.emplace_back(shape.count());
        for (std::size_t i = 0; i < tensor.size(); ++i)
          tensor[i] = static_cast<float>(i % 7) + static_cast<float>(ctx.rank());
        gradients.push_back({shape.to_string(), TensorView(tensor.data(), shape)});
      }
      GradientSync sync(ctx, gradients, {.compression = compression});
      sync.exchange();
      EXPECT_EQ(values[0][0], 1.0f);
      EXPECT_EQ(values[8][0], 1.0f);
      if (compression.kind != Kind::kPowerSgd) return;
      for (const std::size_t plain : {1, 2})
        for (std::size_t i = 0; i < 500; ++i)
          ASSERT_EQ(values[plain][i], static_cast<float>(i % 7) + 1);
      EXPECT_GT(sync.compression_report().latest_step.compression_rate(), 1.0);
    });
}

TEST(Compression, WarmStartFindsBestFactors) {
  // Singular values 4, 2, 1 and 0.5: the best approximation of rank 2 has the relative error
  // sqrt(1.25 / 21.25).
  const double best = std::sqrt(1.25 / 21.25);
  std::vector<float> fixed(64 * 48);
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; j < 48; ++j)
        fixed[i * 48 + j] += static_cast<float>(
            std::pow(0.5, k) * std::cos(M_PI * (static_cast<double>(i) + 0.5) * (k + 1.0) / 64) *
            std::cos(M_PI * (static_cast<double>(j) + 0.5) * (k + 1.0) / 48));
  for (const bool warm_start : {true, false})
    run_ranks(2, [&](Context& ctx) {
      std::vector<float> matrix = fixed;
      const std::vector<NamedTensor> gradients = {{"m", TensorView(matrix.data(), Shape{64, 48})}};
      Compression compression = kPowerSgd;
      compression.error_feedback = false;
      compression.warm_start = warm_start;
      GradientSync sync(ctx, gradients, {.compression = compression});
      std::vector<double> errors;
      for (int step = 0; step < 12; ++step) {
        matrix = fixed;
        sync.exchange();
        errors.push_back(sync.compression_report().latest_step.relative_error());
        EXPECT_GT(errors.back(), best * 0.999);
      }
      EXPECT_GT(errors[0], best * 1.02);
      EXPECT_EQ(errors[11] < best * 1.001, warm_start) << errors[11] << " of " << best;
    });
}

TEST(Compression, HandlesZeroGradients) {
  run_ranks(2, [](Context& ctx) {
    CompressedSet set(ctx.rank());
    GradientSync sync(ctx, set.gradients(), {.compression = kPowerSgd});
    for (int step = 0; step < 3; ++step) {
      set.fill(0);
      sync.exchange();
      for (const float x : set.all_values()) ASSERT_EQ(x, 0);
    }
    set.compute(1);
    sync.exchange();
    EXPECT_LT(sync.compression_report().latest_step.relative_error(), 0.99);
    EXPECT_GT(sync.compression_report().latest_step.relative_error(), 0);
  });
}

TEST(Compression, KeepsDirectionOfSmallGradients) {
  for (const float scale : {1e-18f, 1e15f}) {
    double errors[2];
    run_ranks(2, [&](Context& ctx) {
      for (const bool is_scaled : {false, true}) {
        CompressedSet set(ctx.rank());
        GradientSync sync(ctx, set.gradients(), {.compression = kPowerSgd});
        for (int step = 0; step < 4; ++step) {
          set.compute(0);
          if (is_scaled) set.multiply(scale);
          sync.exchange();
        }
        if (ctx.rank() == 0)
          errors[is_scaled] = sync.compression_report().latest_step.relative_error();
      }
    });
    EXPECT_NEAR(errors[0], errors[1], 1e-3);
  }
}

TEST(Compression, NonFiniteValuesDoNotPersist) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})
    for (const Compression& compression : {kPowerSgd, kTopK, kInt8})
      run_ranks(3, [&](Context& ctx) {
        CompressedSet with(ctx.rank());
        CompressedSet without(ctx.rank());
        GradientSync sync(ctx, with.gradients(), {.compression = compression});
        GradientSync other(ctx, without.gradients(), {.compression = compression});
        for (int step = 0; step < 3; ++step) {
          with.compute(step);
          without.compute(step);
          sync.exchange();
          other.exchange();
        }
        with.compute(3);
        // Every tensor contains such a value, so that no part of the state changes.
        if (ctx.rank() == 1) with.set_in_each(bad);
        const auto before = sync.save_compression_state();
        sync.exchange();
        EXPECT_EQ(with.count_tensors_with_non_finite(), with.gradients().size());
        EXPECT_GT(sync.compression_report().latest_step.non_finite, 0u);
        // Except for the number of steps, the state is unchanged.
        const auto after = sync.save_compression_state();
        ASSERT_EQ(after.size(), before.size());
        EXPECT_EQ(std::memcmp(after.data() + after.size() / 2, before.data() + before.size() / 2,
                              after.size() - after.size() / 2),
                  0);
        with.compute(4);
        without.compute(4);
        sync.exchange();
        other.exchange();
        EXPECT_EQ(with.count_tensors_with_non_finite(), 0u);
        EXPECT_EQ(with.all_values(), without.all_values());
      });
}

TEST(Compression, StartsAtConfiguredStep) {
  Compression compression = kPowerSgd;
  compression.start_step = 2;
  run_ranks(2, [&](Context& ctx) {
    CompressedSet set(ctx.rank());
    CompressedSet truth(ctx.rank());
    GradientSync sync(ctx, set.gradients(), {.compression = compression});
    GradientSync exact(ctx, truth.gradients(), {});
    for (int step = 0; step < 4; ++step) {
      set.compute(step);
      truth.compute(step);
      sync.exchange();
      exact.exchange();
      EXPECT_EQ(set.all_values() == truth.all_values(), step < 2);
      EXPECT_EQ(sync.compression_report().latest_step.compression_rate() == 1, step < 2);
    }
  });
}

TEST(Compression, KeepsNothingWithoutErrorFeedback) {
  for (Compression compression : {kPowerSgd, kTopK}) {
    compression.error_feedback = false;
    compression.warm_start = false;
    run_ranks(2, [&](Context& ctx) {
      CompressedSet set(ctx.rank());
      GradientSync sync(ctx, set.gradients(), {.compression = compression});
      set.compute(0);
      sync.exchange();
      const auto first = set.all_values();
      EXPECT_GT(sync.compression_report().latest_step.relative_error(), 0.01);
      EXPECT_LT(sync.save_compression_state().size(), 2000u);
      set.compute(0);
      sync.exchange();
      // Random factors differ from step to step, the largest values do not.
      EXPECT_EQ(set.all_values() == first, compression.kind == Kind::kTopK);
    });
  }
}

TEST(Compression, ReportsBytesSentByRing) {
  run_ranks(4, [](Context& ctx) {
    std::vector<float> matrix(100 * 50);
    std::vector<float> bias(10);
    for (std::size_t i = 0; i < matrix.size(); ++i)
      matrix[i] = std::sin(static_cast<float>(i * i)) + static_cast<float>(ctx.rank());
    const std::vector<NamedTensor> gradients = {{"m", TensorView(matrix.data(), Shape{100, 50})},
                                                {"b", TensorView(bias)}};
    GradientSync low_rank(ctx, gradients, {.compression = kPowerSgd});
    low_rank.exchange();
    low_rank.exchange();
    const auto report = low_rank.compression_report();
    EXPECT_EQ(report.latest_step.bytes_uncompressed, 5010u * 4 * 6 / 4);
    EXPECT_EQ(report.latest_step.bytes_sent, (2u * 150 + 10) * 4 * 6 / 4);
    EXPECT_EQ(report.total.bytes_sent, 2 * report.latest_step.bytes_sent);
    EXPECT_NEAR(report.total.compression_rate(), 5010.0 / 310, 1e-9);

    Compression later = kPowerSgd;
    later.start_step = 1;
    GradientSync warm_up(ctx, gradients, {.compression = later});
    warm_up.exchange();
    const auto before = warm_up.compression_report();
    EXPECT_EQ(before.latest_step.bytes_uncompressed, 5010u * 4 * 6 / 4);
    EXPECT_EQ(before.latest_step.bytes_sent, before.latest_step.bytes_uncompressed);
    EXPECT_EQ(before.total.bytes_uncompressed, before.latest_step.bytes_uncompressed);
    warm_up.exchange();
    EXPECT_EQ(warm_up.compression_report().total.bytes_uncompressed, 2 * 5010u * 4 * 6 / 4);

    GradientSync largest(ctx, gradients, {.compression = kTopK});
    largest.exchange();
    EXPECT_EQ(largest.compression_report().latest_step.bytes_sent, 3 * 8 * (250u + 1));
  });
}

TEST(Compression, CompressedBucketsAreNotInPlace) {
  run_ranks(2, [](Context& ctx) {
    const Arena arena = ctx.allocate(1 << 20);
    std::pmr::vector<float> matrix(200 * 200, 1.0f, arena.resource());
    std::pmr::vector<double> other(40000, 1.0, arena.resource());
    const std::vector<NamedTensor> gradients = {{"m", TensorView(matrix.data(), Shape{200, 200})},
                                                {"d", TensorView(other)}};
    GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum, .compression = kPowerSgd});
    ASSERT_EQ(sync.bucket_count(), 2u);
    EXPECT_TRUE(sync.is_in_place(0));
    EXPECT_FALSE(sync.is_in_place(1));
    sync.exchange();
    EXPECT_EQ(other[39999], 2.0);
    EXPECT_NEAR(matrix[39999], 2.0f, 1e-5f);
  });
}

TEST(Compression, SendsFactorsInWireType) {
  run_ranks(4,
            [](Context& ctx) {
              std::vector<float> matrix(300 * 200);
              for (std::size_t i = 0; i < 300; ++i)
                for (std::size_t j = 0; j < 200; ++j)
                  matrix[i * 200 + j] = std::sin(static_cast<float>(i + 1)) *
                                        std::cos(static_cast<float>(j)) *
                                        static_cast<float>(ctx.rank() + 1);
              std::vector<float> exact = matrix;
              ctx.allreduce(TensorView(exact), {.name = "exact"});
              const std::vector<NamedTensor> gradients = {
                  {"m", TensorView(matrix.data(), Shape{300, 200})}};
              Compression compression = kPowerSgd;
              compression.rank = 50;  // more than a small exchange, which would not be narrowed
              compression.min_compression_rate = 1;
              GradientSync sync(ctx, gradients,
                                {.wire = DataType::kBFloat16, .compression = compression});
              sync.exchange();
              EXPECT_GT(sync.wire_report().bytes_saved, 0u);
              for (std::size_t i = 0; i < exact.size(); ++i)
                ASSERT_NEAR(matrix[i], exact[i], 0.05f) << i;
            },
            {.environment = {"HORO_RANKS_PER_NODE=1", "HORO_ALLREDUCE=ring"}});
}

}  // namespace
}  // namespace horo

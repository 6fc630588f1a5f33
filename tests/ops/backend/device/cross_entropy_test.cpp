#include "tests/support/reference_kernels/cross_entropy.h"

#include <cmath>
#include <limits>

#include "ops/backend/cpu/losses.h"
#include "ops/backend/device/losses.h"
#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

template <typename T>
constexpr double kTolerance = std::is_same_v<T, float>     ? 1e-6
                              : std::is_same_v<T, Float16> ? 1e-3
                                                           : 8e-3;

struct Batch {
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  std::size_t classes;

  Batch(std::size_t rows, std::size_t class_count) : classes(class_count) {
    logits = varied_values(rows * classes, static_cast<std::uint32_t>(classes));
    for (float& logit : logits) logit *= 5;
    for (std::size_t row = 0; row < rows; ++row)
      labels.push_back(static_cast<std::int32_t>(row * 7919 % classes));
  }
};

struct Result {
  BatchScore score{-1, 99};
  std::vector<float> gradient;
};

template <typename T>
Result run(const Batch& batch, double normaliser, std::size_t skip, bool in_place,
           const float* loss_scale = nullptr) {
  TestDevice test;
  DeviceValues<T> logits(test.device, batch.logits, skip);
  DeviceValues<T> gradient(test.device, std::vector<float>(batch.logits.size()), skip);
  std::vector<RowScore> rows(batch.labels.size());
  Result result;
  DeviceValues<T>& to = in_place ? logits : gradient;
  softmax_cross_entropy(*test.stream, logits.data(), batch.labels.data(),
                        {batch.labels.size(), batch.classes, normaliser, loss_scale}, to.data(),
                        rows.data(), &result.score);
  test.stream->synchronize();
  logits.expect_guards();
  gradient.expect_guards();
  result.gradient = to.values();
  return result;
}

template <typename T>
void check_against_reference() {
  for (const std::size_t classes : {1, 2, 10, 31, 64, 256, 257, 1000, 8193, 12000})
    for (const std::size_t skip : {0, 1}) {
      SCOPED_TRACE(std::to_string(classes) + " classes, skip " + std::to_string(skip));
      Batch batch(3, classes);
      batch.logits = rounded<T>(batch.logits);
      const Result result = run<T>(batch, 6, skip, false);
      const auto logits = in_double(batch.logits);
      EXPECT_NEAR(result.score.loss, reference::cross_entropy(logits, batch.labels, classes, 6),
                  1e-5);
      const auto gradient = reference::cross_entropy_gradient(logits, batch.labels, classes, 6);
      expect_close(result.gradient, gradient, kTolerance<T>);
      const auto cpu =
          cpu::softmax_cross_entropy(batch.logits, batch.labels, classes, 6, std::span<float>{});
      EXPECT_EQ(result.score.correct, cpu.correct);
      EXPECT_EQ(run<T>(batch, 6, skip, true).gradient, result.gradient);
    }
}

TEST(DeviceCrossEntropy, Float32) { check_against_reference<float>(); }
TEST(DeviceCrossEntropy, Float16) { check_against_reference<Float16>(); }
TEST(DeviceCrossEntropy, BFloat16) { check_against_reference<BFloat16>(); }

TEST(DeviceCrossEntropy, ManyRowsHaveOneMean) {
  const Batch batch(700, 10);
  const Result result = run<float>(batch, 700, 0, true);
  EXPECT_NEAR(result.score.loss,
              reference::cross_entropy(in_double(batch.logits), batch.labels, 10, 700), 1e-6);
  const auto cpu =
      cpu::softmax_cross_entropy(batch.logits, batch.labels, 10, 700, std::span<float>{});
  EXPECT_EQ(result.score.correct, cpu.correct);
  EXPECT_GT(cpu.correct, 20u);
}

TEST(DeviceCrossEntropy, LossScaleAppliesOnlyToTheGradient) {
  const Batch batch(4, 20);
  const float loss_scale = 8;
  const Result plain = run<float>(batch, 4, 0, false);
  const Result scaled = run<float>(batch, 4, 0, false, &loss_scale);
  EXPECT_EQ(scaled.score.loss, plain.score.loss);
  for (std::size_t i = 0; i < plain.gradient.size(); ++i)
    EXPECT_EQ(scaled.gradient[i], 8 * plain.gradient[i]);
}

TEST(DeviceCrossEntropy, FirstOfEqualLogitsWins) {
  Batch batch(2, 300);
  std::fill(batch.logits.begin(), batch.logits.end(), 1.0f);
  batch.labels = {0, 299};
  EXPECT_EQ(run<float>(batch, 1, 0, false).score.correct, 1u);
}

TEST(DeviceCrossEntropy, IsStableForLargeLogitsAndMasks) {
  Batch batch(2, 40);
  for (float& logit : batch.logits) logit *= 1e30f;
  batch.logits[3] = -std::numeric_limits<float>::infinity();
  const Result result = run<float>(batch, 2, 0, false);
  EXPECT_TRUE(std::isfinite(result.score.loss));
  for (const float value : result.gradient) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(result.gradient[3], 0);
}

TEST(DeviceCrossEntropy, BadLabelsMakeLossAndGradientNan) {
  for (const std::int32_t label : {-1, 40, 1000000}) {
    Batch batch(2, 40);
    batch.labels[1] = label;
    const Result result = run<float>(batch, 2, 0, false);
    EXPECT_TRUE(std::isnan(result.score.loss)) << label;
    EXPECT_FALSE(std::isnan(result.gradient[0])) << label;
    EXPECT_TRUE(std::isnan(result.gradient[40])) << label;
  }
  Batch batch(1, 40);
  batch.logits[17] = std::nanf("");
  EXPECT_TRUE(std::isnan(run<float>(batch, 1, 0, false).score.loss));
}

TEST(DeviceCrossEntropy, ComputesTheScoreWithoutAGradient) {
  TestDevice test;
  const Batch batch(5, 100);
  std::vector<RowScore> rows(5);
  BatchScore score{};
  float loss = 0;
  softmax_cross_entropy<float>(*test.stream, batch.logits.data(), batch.labels.data(),
                               {.rows = 5, .classes = 100, .normaliser = 5, .loss = &loss}, nullptr,
                               rows.data(), &score);
  test.stream->synchronize();
  EXPECT_EQ(loss, static_cast<float>(score.loss));
  EXPECT_NEAR(score.loss, reference::cross_entropy(in_double(batch.logits), batch.labels, 100, 5),
              1e-6);
}

}  // namespace
}  // namespace horo::ops::device_kernels

#include "tests/support/reference_kernels/cross_entropy.h"

#include "horo/base/error.h"
#include "ops/backend/cpu/losses.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {
namespace {

std::vector<std::int32_t> varied_labels(std::size_t count, std::size_t classes) {
  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int32_t>(i * 5 % classes);
  return labels;
}

TEST(CrossEntropy, MatchesReference) {
  for (const std::size_t batch : {1, 3, 5, 17}) {
    for (const std::size_t classes : {1, 2, 10}) {
      auto logits = varied_values(batch * classes, 1);
      for (float& logit : logits) logit *= 4;
      const auto labels = varied_labels(batch, classes);
      const double normaliser = static_cast<double>(batch) * 1.5;
      std::vector<float> gradient(logits.size());
      const auto score = cpu::softmax_cross_entropy(logits, labels, classes, normaliser, gradient);
      EXPECT_NEAR(score.loss,
                  reference::cross_entropy(in_double(logits), labels, classes, normaliser), 1e-9);
      expect_close(
          gradient,
          reference::cross_entropy_gradient(in_double(logits), labels, classes, normaliser), 1e-7);
    }
  }
}

TEST(CrossEntropy, GradientMayOverwriteTheLogits) {
  auto logits = varied_values(30, 1);
  const auto labels = varied_labels(3, 10);
  std::vector<float> gradient(30);
  const auto apart = cpu::softmax_cross_entropy(logits, labels, 10, 3, gradient);
  const auto without = cpu::softmax_cross_entropy(logits, labels, 10, 3, {});
  const auto in_place = cpu::softmax_cross_entropy(logits, labels, 10, 3, logits);
  EXPECT_EQ(logits, gradient);
  EXPECT_EQ(apart.loss, in_place.loss);
  EXPECT_EQ(apart.loss, without.loss);
  EXPECT_EQ(apart.correct, in_place.correct);
}

TEST(CrossEntropy, HugeLogitsStayFinite) {
  const std::vector<float> logits{3e38f,   -3e38f, 0.0f,  //
                                  1000.0f, 999.0f, -1000.0f};
  const std::vector<std::int32_t> labels{0, 1};
  std::vector<float> gradient(6);
  const auto score = cpu::softmax_cross_entropy(logits, labels, 3, 1, gradient);
  EXPECT_NEAR(score.loss, std::log(1 + std::exp(1.0)), 1e-9);
  EXPECT_EQ(score.correct, 1u);
  EXPECT_EQ(gradient[0], 0.0f);
  EXPECT_NEAR(gradient[3], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(gradient[4], -gradient[3], 1e-6);
}

TEST(CrossEntropy, FirstOfEqualLogitsWins) {
  const std::vector<float> logits{0.5f, 0.5f, 0.1f, 0.2f};
  EXPECT_EQ(cpu::softmax_cross_entropy(logits, std::vector<std::int32_t>{0, 1}, 2, 2, {}).correct,
            2u);
  EXPECT_EQ(cpu::softmax_cross_entropy(logits, std::vector<std::int32_t>{1, 0}, 2, 2, {}).correct,
            0u);
}

TEST(CrossEntropy, LabelOutOfRangeIsNamed) {
  const std::vector<float> logits(30);
  std::vector<float> gradient(30, 7.0f);
  for (const std::int32_t wrong : {10, -1}) {
    try {
      (void)cpu::softmax_cross_entropy(logits, std::vector<std::int32_t>{3, 0, wrong}, 10, 3,
                                       gradient);
      FAIL() << wrong;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(error.what(), "cross-entropy: sample 2 of the batch has label " +
                                  std::to_string(wrong) + "; expected 0 to 9");
    }
  }
  EXPECT_EQ(gradient, std::vector<float>(30, 7.0f)) << "something was written";
}

}  // namespace
}  // namespace horo::ops

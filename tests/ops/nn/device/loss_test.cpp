// Losses in host memory and on the device under test.
#include "ops/nn/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/ops/nn/device/network_pair.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

struct Result {
  BatchScore score;
  float loss = 0;
  std::vector<float> gradient;
};

Tensor int_tensor(const Shape& shape, const std::vector<std::int32_t>& values) {
  Tensor tensor(shape, DataType::kInt32);
  std::ranges::copy(values, tensor.data<std::int32_t>());
  return tensor;
}

Result in_host_memory(const Loss& loss, const Tensor& output, const Tensor& targets,
                      double samples) {
  Result result;
  result.gradient = values_of(
      loss.backward(cpu_backend(), output.clone(), targets, samples, &result.score, &result.loss));
  return result;
}

/// `targets` are copied bit by bit.
Result on_device(const Loss& loss, const Tensor& output, const Tensor& targets, double samples,
                 DataType type) {
  DeviceSide side(type);
  DeviceBackend& backend = side.backend();
  const device::Memory pinned = backend.device().allocate_pinned(64 + targets.bytes());
  std::copy_n(targets.raw(), targets.bytes(), pinned.data() + 64);
  Tensor own = backend.allocate(targets.shape(), targets.type());
  backend.stream().copy(own.raw(), pinned.data() + 64, targets.bytes());
  Tensor results = backend.allocate({64}, DataType::kUInt8);
  auto* const score = reinterpret_cast<BatchScore*>(results.raw());
  auto* const value = reinterpret_cast<float*>(results.raw() + sizeof(BatchScore));
  Result result;
  result.gradient =
      side.download(loss.backward(backend, side.give(output), own, samples, score, value));
  backend.stream().copy(pinned.data(), results.raw(), 64);
  backend.stream().synchronize();
  std::memcpy(&result.score, pinned.data(), sizeof result.score);
  std::memcpy(&result.loss, pinned.data() + sizeof(BatchScore), sizeof(float));
  return result;
}

void expect_equal(const Result& result, const Result& expected, double tolerance) {
  EXPECT_NEAR(result.score.loss, expected.score.loss, tolerance);
  EXPECT_NEAR(result.loss, expected.score.loss, tolerance);
  EXPECT_EQ(result.score.correct, expected.score.correct);
  EXPECT_EQ(result.score.counted, expected.score.counted);
  ASSERT_EQ(result.gradient.size(), expected.gradient.size());
  for (std::size_t i = 0; i < result.gradient.size(); ++i)
    EXPECT_NEAR(result.gradient[i], expected.gradient[i], tolerance) << i;
}

// The definition, without the steps that make it stable.
Result cross_entropy_by_definition(const Tensor& logits, const std::vector<std::int32_t>& targets,
                                   std::size_t classes, double normaliser, double smoothing,
                                   std::int32_t ignored) {
  Result result;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const float* x = logits.data() + row * classes;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(x[c]));
    const bool counts = targets[row] != ignored;
    std::size_t largest = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      if (x[c] > x[largest]) largest = c;
      const double share = smoothing / static_cast<double>(classes);
      const double wanted = std::cmp_equal(c, targets[row]) ? 1 - smoothing + share : share;
      const double p = std::exp(static_cast<double>(x[c])) / sum;
      if (counts) result.score.loss -= wanted * std::log(p) / normaliser;
      result.gradient.push_back(counts ? static_cast<float>((p - wanted) / normaliser) : 0.0f);
    }
    result.score.counted += counts;
    result.score.correct += counts && std::cmp_equal(largest, targets[row]);
  }
  result.loss = static_cast<float>(result.score.loss);
  return result;
}

TEST(Losses, CrossEntropyOfTokensSmoothsAndIgnores) {
  constexpr std::size_t kBatch = 3, kTokens = 5;
  for (const std::size_t classes : {7, 300}) {
    const Tensor logits = varied_tensor({kBatch, kTokens, classes}, 4);
    std::vector<std::int32_t> targets;
    for (std::size_t i = 0; i < kBatch * kTokens; ++i)
      targets.push_back(i % 4 == 1 ? -7 : static_cast<std::int32_t>(i * 11 % classes));
    targets[4] = static_cast<std::int32_t>(
        std::max_element(logits.data() + 4 * classes, logits.data() + 5 * classes) -
        (logits.data() + 4 * classes));
    for (const float smoothing : {0.0f, 0.2f}) {
      const CrossEntropy loss({.label_smoothing = smoothing, .ignored = -7});
      const Tensor wanted = int_tensor({kBatch, kTokens}, targets);
      const Result expected = cross_entropy_by_definition(logits, targets, classes, 2.5 * kTokens,
                                                          static_cast<double>(smoothing), -7);
      EXPECT_GT(expected.score.correct, 0u);
      expect_equal(in_host_memory(loss, logits, wanted, 2.5), expected, 1e-5);
      expect_equal(on_device(loss, logits, wanted, 2.5, DataType::kFloat32), expected, 1e-5);
      expect_equal(on_device(loss, logits, wanted, 2.5, DataType::kBFloat16), expected, 0.05);
      expect_equal(on_device(loss, logits, wanted, 2.5, DataType::kFloat16), expected, 0.01);
    }
  }
}

TEST(Losses, MeanSquaredErrorIsTheMeanOverAllValues) {
  constexpr std::size_t kBatch = 5;
  for (const std::size_t columns : {1, 3, 401}) {
    const Tensor output = varied_tensor({kBatch, columns}, 1),
                 targets = varied_tensor({kBatch, columns}, 2);
    Result expected;
    for (std::size_t i = 0; i < output.count(); ++i) {
      const double difference = static_cast<double>(output.data()[i] - targets.data()[i]);
      const double normaliser = 4.0 * static_cast<double>(columns);
      expected.score.loss += difference * difference / normaliser;
      expected.gradient.push_back(static_cast<float>(2 * difference / normaliser));
    }
    expected.score.counted = output.count();
    const MeanSquaredError loss;
    expect_equal(in_host_memory(loss, output, targets, 4), expected, 1e-5);
    expect_equal(on_device(loss, output, targets, 4, DataType::kFloat32), expected, 1e-5);
    expect_equal(on_device(loss, output, targets, 4, DataType::kBFloat16), expected, 0.05);
    expect_equal(on_device(loss, output, targets, 4, DataType::kFloat16), expected, 0.01);
  }
}

TEST(Losses, KeepAnOutputThatOthersUse) {
  const Tensor output = varied_tensor({2, 3}, 1);
  const std::vector<float> before = values_of(output);
  BatchScore score;
  (void)CrossEntropy().backward(cpu_backend(), output.shared(), int_tensor({2}, {0, 2}), 2, &score);
  EXPECT_EQ(values_of(output), before);
}

std::string error_of(const Loss& loss, const Shape& output, const Tensor& targets) {
  BatchScore score;
  try {
    loss.score(cpu_backend(), Tensor::zeros(output), targets, &score);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Losses, RejectShapesThatDoNotMatch) {
  using ::testing::HasSubstr;
  const Tensor labels = int_tensor({2}, {0, 2}), tokens = int_tensor({2, 3}, {0, 1, 2, 0, 1, 2});
  EXPECT_EQ(error_of(CrossEntropy(), {2, 3}, labels), "no error");
  EXPECT_EQ(error_of(CrossEntropy(), {2, 9}, tokens), "no error");
  EXPECT_THAT(error_of(CrossEntropy(), {3, 3}, labels), HasSubstr("logits have shape [3, 3]"));
  EXPECT_THAT(error_of(CrossEntropy(), {2, 4}, tokens), HasSubstr("logits have shape [2, 4]"));
  EXPECT_THAT(error_of(CrossEntropy(), {2, 2}, labels), HasSubstr("sample 1 of the batch"));
  EXPECT_THAT(error_of(MeanSquaredError(), {2, 3}, Tensor::zeros({2, 2})),
              HasSubstr("the output has shape [2, 3], the targets [2, 2]"));
  EXPECT_THROW(CrossEntropy({.label_smoothing = 1}), InvalidArgument);
  EXPECT_THROW(CrossEntropy({.label_smoothing = std::numeric_limits<float>::quiet_NaN()}),
               InvalidArgument);
}

}  // namespace
}  // namespace horo::ops

#include "ops/nn/layers/batch_norm.h"

#include "horo/base/error.h"
#include "tests/ops/support/passes.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/reference_kernels/batch_norm.h"

namespace horo::ops {
namespace {

TEST(BatchNorm, RunningStatisticsFollowTheBatches) {
  BatchNorm layer({.channels = 3, .momentum = 0.25f});
  reference::Values mean(3, 0.0);
  reference::Values variance(3, 1.0);
  for (std::uint32_t step = 0; step < 4; ++step) {
    const ImageBatch shape{2 + step, 3, 4, 5};
    const Tensor input = varied_tensor({2 + step, 3, 4, 5}, step);
    const auto batch = reference::channel_statistics(shape, in_double(input.values()));
    const auto count = static_cast<double>(shape.batch * 20);
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c] = 0.75 * mean[c] + 0.25 * batch.mean[c];
      variance[c] = 0.75 * variance[c] + 0.25 * batch.variance[c] * count / (count - 1);
    }
    (void)layer.forward(input.clone(), kTraining);
    expect_close(layer.buffers()[0]->value.values(), mean, 1e-6);
    expect_close(layer.buffers()[1]->value.values(), variance, 1e-6);
  }
}

TEST(BatchNorm, InferenceUsesAndKeepsTheRunningStatistics) {
  BatchNorm layer({.channels = 2, .epsilon = 0.5f});
  assign(layer.parameters()[0]->value, {2.0f, -3.0f});
  assign(layer.parameters()[1]->value, {0.25f, 1.0f});
  assign(layer.buffers()[0]->value, {1.0f, -1.0f});
  assign(layer.buffers()[1]->value, {3.5f, 8.5f});
  const Tensor output = layer.forward(tensor_of({2, 2}, {3.0f, 2.0f, 1.0f, -4.0f}), kInference);
  // (x - mean) / sqrt(variance + 0.5) * weight + bias, deviations 2 and 3
  expect_close(output.values(), {2.25, -2.0, 0.25, 4.0}, 1e-6);
  EXPECT_EQ(values_of(layer.buffers()[0]->value), (std::vector<float>{1.0f, -1.0f}));
  EXPECT_EQ(values_of(layer.buffers()[1]->value), (std::vector<float>{3.5f, 8.5f}));
}

TEST(BatchNorm, BackwardMatchesReferenceOnFeaturesAndImages) {
  for (const Shape& shape : {Shape{17, 5}, Shape{3, 5, 4, 3}}) {
    const ImageBatch images{shape[0], 5, shape.rank() == 4 ? shape[2] : 1,
                            shape.rank() == 4 ? shape[3] : 1};
    BatchNorm layer({.channels = 5, .epsilon = 1e-3f});
    vary_parameters(layer);
    const Tensor input = varied_tensor(shape, 1);
    const Tensor output_gradient = varied_tensor(shape, 2);
    const auto expected = reference::batch_norm_gradients(
        images, in_double(input.values()), in_double(layer.parameters()[0]->value.values()),
        in_double(output_gradient.values()), 1e-3f);
    (void)layer.forward(input.clone(), kTraining);
    (void)layer.forward(varied_tensor(shape, 9), kInference);  // must not affect the backward pass
    std::vector<std::string> ready;
    const Tensor input_gradient =
        layer.backward(output_gradient.clone(),
                       [&](const Parameter& parameter) { ready.push_back(parameter.name); });
    expect_close(input_gradient.values(), expected.input, 1e-4);
    expect_close(layer.parameters()[0]->gradient.values(), expected.scale, 1e-4);
    expect_close(layer.parameters()[1]->gradient.values(), expected.shift, 1e-4);
    EXPECT_EQ(ready, (std::vector<std::string>{"weight", "bias"}));
  }
}

TEST(BatchNorm, RefusesOneValuePerChannel) {
  BatchNorm layer({.channels = 4});
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        (void)layer.forward(varied_tensor({1, 4}, 1), kTraining);
      }),
      "BatchNorm: input has shape [1, 4]; expected at least two values per channel when training");
  EXPECT_NO_THROW((void)layer.forward(varied_tensor({1, 4}, 1), kInference));
  EXPECT_EQ(values_of(layer.buffers()[0]->value), std::vector<float>(4, 0.0f));
}

}  // namespace
}  // namespace horo::ops

#include "ops/backend/cpu/batch_norm.h"

#include <ostream>

#include "tests/ops/support/test_values.h"
#include "tests/support/reference_kernels/batch_norm.h"

namespace horo::ops {

void PrintTo(const ImageBatch& shape, std::ostream* out) {
  *out << shape.batch << "x" << shape.channels << "x" << shape.height << "x" << shape.width;
}

namespace {

constexpr float kEpsilon = 1e-3f;

class BatchNormKernel : public testing::TestWithParam<ImageBatch> {
 protected:
  BatchNormKernel() {
    // channels of different mean and spread
    for (std::size_t i = 0; i < input.size(); ++i) {
      const std::size_t channel = i / (shape.height * shape.width) % shape.channels;
      input[i] =
          input[i] * static_cast<float>(1 + channel % 3) + static_cast<float>(channel) - 2.0f;
    }
  }

  ImageBatch shape = GetParam();
  std::vector<float> input = varied_values(shape.count(), 1);
  std::vector<float> scale = varied_values(shape.channels, 2);
  std::vector<float> shift = varied_values(shape.channels, 3);
  std::vector<float> output_gradient = varied_values(shape.count(), 4);
  std::vector<float> output = std::vector<float>(shape.count());
  std::vector<float> mean = std::vector<float>(shape.channels);
  std::vector<float> variance = std::vector<float>(shape.channels);
  cpu::BatchNormKernel kernel{shape, kEpsilon};
};

TEST_P(BatchNormKernel, TrainingMatchesReference) {
  kernel.forward_training(input.data(), scale.data(), shift.data(), output.data(), mean.data(),
                          variance.data());
  const auto statistics = reference::channel_statistics(shape, in_double(input));
  expect_close(mean, statistics.mean, 1e-5);
  expect_close(variance, statistics.variance, 1e-5);
  expect_close(output,
               reference::batch_norm(shape, in_double(input), in_double(scale), in_double(shift),
                                     statistics, kEpsilon),
               1e-4);
}

TEST_P(BatchNormKernel, InferenceUsesGivenStatistics) {
  const auto given_mean = varied_values(shape.channels, 7);
  auto given_variance = varied_values(shape.channels, 8);
  for (float& value : given_variance) value = 0.5f + value * value;
  kernel.forward_inference(input.data(), scale.data(), shift.data(), given_mean.data(),
                           given_variance.data(), output.data());
  expect_close(output,
               reference::batch_norm(shape, in_double(input), in_double(scale), in_double(shift),
                                     {in_double(given_mean), in_double(given_variance)}, kEpsilon),
               1e-5);
}

TEST_P(BatchNormKernel, BackwardMatchesReference) {
  kernel.forward_training(input.data(), scale.data(), shift.data(), output.data(), mean.data(),
                          variance.data());
  std::vector<float> input_gradient(input.size());
  std::vector<float> scale_gradient(scale.size());
  std::vector<float> shift_gradient(shift.size());
  kernel.backward(input.data(), output_gradient.data(), scale.data(), mean.data(), variance.data(),
                  input_gradient.data(), scale_gradient.data(), shift_gradient.data());
  const auto expected = reference::batch_norm_gradients(shape, in_double(input), in_double(scale),
                                                        in_double(output_gradient), kEpsilon);
  expect_close(scale_gradient, expected.scale, 1e-4);
  expect_close(shift_gradient, expected.shift, 1e-4);
  expect_close(input_gradient, expected.input, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNormKernel,
                         testing::Values(ImageBatch{1, 1, 3, 5}, ImageBatch{3, 8, 7, 5},
                                         ImageBatch{17, 3, 1, 1}, ImageBatch{5, 16, 4, 4},
                                         ImageBatch{5, 33, 1, 1}, ImageBatch{17, 8, 9, 1}));

}  // namespace
}  // namespace horo::ops

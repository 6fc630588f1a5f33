// Runs kernels twice on the stand-in and, if available, twice on a GPU. Each device must give the
// same bits twice, and both nearly the same values.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>

#include "horo/device/gpu.h"
#include "ops/backend/device/attention.h"
#include "ops/backend/device/dropout.h"
#include "ops/backend/device/elementwise.h"
#include "ops/backend/device/embedding.h"
#include "ops/backend/device/losses.h"
#include "ops/backend/device/matrix.h"
#include "ops/backend/device/norm/batch_norm.h"
#include "ops/backend/device/norm/layer_norm.h"
#include "ops/backend/device/update/gradient_norm.h"
#include "ops/backend/device/update/update.h"
#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

// Arrays on a device, copied there and back.
class Arrays {
 public:
  explicit Arrays(device::Device& device) : device_(device) {}
  device::Stream& stream() { return *stream_; }

  template <typename T>
  T* give(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    const device::Memory& memory = memory_.emplace_back(device_.allocate(bytes));
    const device::Memory& pinned = memory_.emplace_back(device_.allocate_pinned(bytes));
    std::memcpy(pinned.data(), values.data(), bytes);
    stream_->copy(memory.data(), pinned.data(), bytes);
    return reinterpret_cast<T*>(memory.data());
  }
  template <typename T>
  T* give_rounded(const std::vector<float>& values) {
    std::vector<T> narrow;
    for (const float value : values) narrow.push_back(static_cast<T>(value));
    return give(narrow);
  }
  template <typename T>
  T* room(std::size_t count) {
    return give(std::vector<T>(count));
  }
  // Appends the values at `data` to the results.
  template <typename T>
  void take(const T* data, std::size_t count) {
    const device::Memory pinned = device_.allocate_pinned(count * sizeof(T));
    stream_->copy(pinned.data(), data, count * sizeof(T));
    stream_->synchronize();
    for (std::size_t i = 0; i < count; ++i)
      results_.push_back(static_cast<float>(reinterpret_cast<const T*>(pinned.data())[i]));
  }
  const std::vector<float>& results() const { return results_; }

 private:
  device::Device& device_;
  std::deque<device::Memory> memory_;
  std::unique_ptr<device::Stream> stream_ = device_.make_stream(device::Priority::kNormal);
  std::vector<float> results_;
};

using Run = std::function<void(Arrays&)>;

std::vector<float> run_twice(device::Device& device, const Run& run) {
  Arrays first(device), second(device);
  run(first);
  run(second);
  EXPECT_FALSE(first.results().empty());
  EXPECT_EQ(first.results(), second.results()) << device.describe() << ": other bits";
  return first.results();
}

void compare(const Run& run, double tolerance) {
  device::HostDevice host;
  const std::vector<float> expected = run_twice(host, run);
  const auto gpu = device::open_gpu(0);
  expect_close(run_twice(*gpu, run), in_double(expected), tolerance);
}

TEST(GpuAgreement, Updates) {
  compare(
      [](Arrays& arrays) {
        const std::size_t sizes[] = {100000, 7, 8192, 30001};
        std::vector<AdamWTensor> tensors;
        std::vector<SgdTensor> others;
        std::uint32_t seed = 0;
        for (const std::size_t size : sizes) {
          auto* gradient = arrays.give_rounded<BFloat16>(varied_values(size, ++seed));
          tensors.push_back({arrays.give(varied_values(size, ++seed)), arrays.room<float>(size),
                             arrays.room<float>(size), gradient, arrays.room<BFloat16>(size),
                             size});
          others.push_back({arrays.give(varied_values(size, ++seed)), arrays.room<float>(size),
                            gradient, arrays.room<BFloat16>(size), size});
        }
        const UpdateTypes types{DataType::kBFloat16, DataType::kBFloat16};
        for (int step = 1; step <= 3; ++step) {
          update_adamw(arrays.stream(), tensors, types, {.epsilon = 1e-3f}, step, {.scale = 0.5f});
          update_sgd(arrays.stream(), others, types, {.momentum = 0.9f, .nesterov = true});
        }
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          arrays.take(tensors[t].value, tensors[t].count);
          arrays.take(tensors[t].second_moment, tensors[t].count);
          arrays.take(others[t].value, others[t].count);
        }
      },
      1e-5);
}

TEST(GpuAgreement, GradientNorm) {
  compare(
      [](Arrays& arrays) {
        std::vector<GradientTensor> gradients;
        for (const std::size_t size : {300000, 3, 8193})
          gradients.push_back(
              {arrays.give_rounded<Float16>(varied_values(size, static_cast<std::uint32_t>(size))),
               size});
        const std::size_t sums = count_partial_sums(gradients);
        auto* verdict = arrays.room<GradientVerdict>(1);
        auto* loss = arrays.give(std::vector<LossScale>{{.scale = 64, .good_steps = 5}});
        measure_gradients(arrays.stream(), gradients, DataType::kFloat16,
                          {arrays.room<double>(sums), sums}, verdict,
                          {.max_norm = 1, .loss_scale = loss, .growth_interval = 6});
        arrays.take(&verdict->norm, 1);
        arrays.take(&verdict->factor, 1);
        arrays.take(&verdict->skip, 1);
        arrays.take(&loss->scale, 1);
      },
      1e-6);
}

TEST(GpuAgreement, CrossEntropy) {
  for (const std::size_t classes : {10, 1001, 50304}) {
    compare(
        [&](Arrays& arrays) {
          constexpr std::size_t kRows = 33;
          std::vector<std::int32_t> labels;
          for (std::size_t row = 0; row < kRows; ++row)
            labels.push_back(static_cast<std::int32_t>(row * 977 % classes));
          auto* logits = arrays.give_rounded<BFloat16>(varied_values(kRows * classes, 1));
          auto* score = arrays.room<BatchScore>(1);
          softmax_cross_entropy(arrays.stream(), logits, arrays.give(labels),
                                {kRows, classes, kRows}, logits, arrays.room<RowScore>(kRows),
                                score);
          arrays.take(&score->loss, 1);
          arrays.take(&score->correct, 1);
          arrays.take(logits, kRows * classes);
        },
        1e-3);
    if (::testing::Test::IsSkipped()) return;
  }
}

TEST(GpuAgreement, LayerNorm) {
  compare(
      [](Arrays& arrays) {
        const NormShape shape{300, 768};
        const std::size_t count = shape.rows * shape.columns;
        auto* x = arrays.give(varied_values(count, 1));
        auto* dy = arrays.give(varied_values(count, 2));
        auto* gamma = arrays.give(varied_values(shape.columns, 3));
        auto* y = arrays.room<float>(count);
        auto* dgamma = arrays.room<float>(shape.columns);
        auto* dbeta = arrays.room<float>(shape.columns);
        const NormStatistics statistics{arrays.room<float>(300), arrays.room<float>(300)};
        layer_norm_forward(arrays.stream(), y, x, gamma, arrays.give(varied_values(768, 4)), shape,
                           1e-5f, statistics);
        layer_norm_parameters_backward(arrays.stream(), dgamma, dbeta, dy, x, shape, statistics,
                                       arrays.room<float>(count_norm_sums(shape)));
        layer_norm_backward(arrays.stream(), dy, dy, x, gamma, shape, statistics);
        for (const float* values : {y, dy}) arrays.take(values, count);
        for (const float* values : {dgamma, dbeta}) arrays.take(values, shape.columns);
      },
      1e-4);
}

TEST(GpuAgreement, EmbeddingAndDropout) {
  compare(
      [](Arrays& arrays) {
        constexpr std::size_t kTokens = 1000, kVocabulary = 50, kWidth = 96;
        std::vector<std::int32_t> tokens;
        std::vector<std::uint64_t> samples;
        for (std::size_t i = 0; i < kTokens; ++i) {
          tokens.push_back(static_cast<std::int32_t>(i * i % kVocabulary));
          samples.push_back(3 * i);
        }
        auto* y = arrays.room<Float16>(kTokens * kWidth);
        embedding_forward(arrays.stream(), y,
                          arrays.give_rounded<Float16>(varied_values(kVocabulary * kWidth, 1)),
                          arrays.give(tokens), {kTokens, kVocabulary, kWidth});
        dropout(arrays.stream(), y, y, kTokens, kWidth,
                {99, arrays.give(samples), 0.25f, 4 / 3.0f});
        auto* dtable = arrays.room<Float16>(kVocabulary * kWidth);
        embedding_backward(arrays.stream(), dtable, y, arrays.give(tokens),
                           {kTokens, kVocabulary, kWidth});
        arrays.take(y, kTokens * kWidth);
        arrays.take(dtable, kVocabulary * kWidth);
      },
      1e-5);
}

TEST(GpuAgreement, Attention) {
  compare(
      [](Arrays& arrays) {
        for (const std::size_t head_size : {24, 64, 128}) {
          const AttentionShape shape{2, 150, 3, head_size};
          const std::size_t count = shape.batch * shape.positions * shape.width();
          auto* qkv = arrays.give(varied_values(3 * count, 1));
          auto* dy = arrays.give(varied_values(count, 2));
          auto* y = arrays.room<float>(count);
          auto* dqkv = arrays.room<float>(3 * count);
          auto* log_sums = arrays.room<float>(shape.rows());
          attention_forward(arrays.stream(), y, log_sums, qkv, shape);
          attention_backward(arrays.stream(), dqkv, dy, y, qkv, log_sums,
                             arrays.room<float>(shape.rows()), shape);
          arrays.take(y, count);
          arrays.take(dqkv, 3 * count);
        }
      },
      1e-4);
}

template <typename T>
void batch_norm_both_ways(Arrays& arrays, ImageLayout layout) {
  constexpr ImageBatch kImages{33, 24, 15, 16};
  const ImageFormat format{std::is_same_v<T, float> ? DataType::kFloat32 : DataType::kBFloat16,
                           layout};
  const std::size_t count = kImages.count(), channels = kImages.channels;
  const auto images = [&](std::uint32_t seed) {
    return arrays.give_rounded<T>(varied_values(count, seed));
  };
  T *x = images(1), *dy = images(2), *addend = images(3), *y = arrays.room<T>(count),
    *dx = arrays.room<T>(count);
  float* of_channel[8];
  for (auto*& array : of_channel) array = arrays.give(varied_values(channels, 4));
  auto* workspace = arrays.room<std::byte>(batch_norm_workspace_bytes(kImages, format));
  auto& [scale, shift, running_mean, running_variance, mean, inverse, dscale, dshift] = of_channel;
  batch_norm_training(arrays.stream(), kImages, format,
                      {.input = x,
                       .scale = scale,
                       .shift = shift,
                       .output = y,
                       .running_mean = running_mean,
                       .running_variance = running_variance,
                       .momentum = 0.1,
                       .mean = mean,
                       .inverse_deviation = inverse,
                       .addend = addend,
                       .has_relu = true},
                      1e-5f, workspace);
  // The sign of an output near 0 may differ between devices, so the gradient is that of no ReLU.
  batch_norm_backward(arrays.stream(), kImages, format,
                      {.input = x,
                       .output_gradient = dy,
                       .scale = scale,
                       .mean = mean,
                       .inverse_deviation = inverse,
                       .input_gradient = dx,
                       .scale_gradient = dscale,
                       .shift_gradient = dshift},
                      workspace);
  for (const T* array : {y, dx}) arrays.take(array, count);
  for (const float* array : of_channel) arrays.take(array, channels);
}

TEST(GpuAgreement, BatchNorm) {
  for (const auto layout : {ImageLayout::kChannelsFirst, ImageLayout::kChannelsLast}) {
    compare([&](Arrays& arrays) { batch_norm_both_ways<float>(arrays, layout); }, 1e-4);
    compare([&](Arrays& arrays) { batch_norm_both_ways<BFloat16>(arrays, layout); }, 2e-2);
  }
}

TEST(GpuAgreement, Elementwise) {
  compare(
      [](Arrays& arrays) {
        constexpr std::size_t kCount = 100003;
        auto* a = arrays.give(varied_values(kCount, 1));
        auto* b = arrays.give(varied_values(kCount, 2));
        auto* y = arrays.room<float>(kCount);
        auto* narrow = arrays.room<BFloat16>(kCount);
        const auto take = [&] { arrays.take(y, kCount); };
        add_relu(arrays.stream(), y, a, b, kCount), take();
        relu_backward(arrays.stream(), y, a, y, kCount), take();
        add_relu_backward(arrays.stream(), y, a, b, b, kCount), take();
        gelu_forward(arrays.stream(), y, a, kCount), take();
        gelu_backward(arrays.stream(), y, b, a, kCount), take();
        scale(arrays.stream(), y, a, 2.0f, kCount, b), take();
        convert(arrays.stream(), narrow, a, kCount);
        arrays.take(narrow, kCount);
        fill(arrays.stream(), narrow, 0.3f, kCount);
        arrays.take(narrow, kCount);
      },
      1e-5);
}

TEST(GpuAgreement, Matrices) {
  compare(
      [](Arrays& arrays) {
        constexpr MatrixBatch kShape{5, 67, 130};
        constexpr std::size_t kCount = kShape.batch * kShape.rows * kShape.columns;
        auto* x = arrays.give(varied_values(kCount, 1));
        auto* turned = arrays.room<BFloat16>(kCount);
        auto* back = arrays.room<float>(kCount);
        auto* sums = arrays.room<float>(kShape.columns);
        transpose(arrays.stream(), turned, x, kShape);
        arrays.take(turned, kCount);
        transpose(arrays.stream(), back, turned, {kShape.batch, kShape.columns, kShape.rows});
        arrays.take(back, kCount);
        constexpr std::size_t kRows[] = {kShape.batch * kShape.rows, kCount / 10};
        for (const std::size_t rows : kRows) {
          const std::size_t columns = kCount / rows;
          auto* scratch = arrays.room<float>(column_sums_scratch(rows, columns) + 1);
          column_sums(arrays.stream(), sums, x, rows, columns, scratch);
          arrays.take(sums, columns);
        }
      },
      1e-5);
}

}  // namespace
}  // namespace horo::ops::device_kernels

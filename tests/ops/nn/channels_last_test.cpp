// Networks of images on the CPU with channels last against the same ones with channels first.
#include <cmath>
#include <functional>
#include <memory>

#include "ops/nn/layers/avg_pool2d.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/dropout.h"
#include "ops/nn/layers/flatten.h"
#include "ops/nn/layers/global_average_pool.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/max_pool2d.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/models.h"
#include "ops/nn/models/resnet.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

using MakeModel = std::function<std::unique_ptr<Sequential>()>;

/// |actual - expected| / |expected|, Euclidean.
double distance(std::span<const float> actual, std::span<const float> expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - static_cast<double>(expected[i]);
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(error / norm);
}

void expect_same(const MakeModel& make, const Shape& input) {
  constexpr double kTolerance = 2e-5;
  Backend& other = cpu_backend(ImageLayout::kChannelsLast);
  const auto expected = make(), actual = make();
  for (std::size_t i = 0; i < expected->parameters().size(); ++i) {
    Tensor& values = expected->parameters()[i]->value;
    const auto more = varied_values(values.count(), static_cast<std::uint32_t>(70 + i));
    if (values.shape().rank() == 1)  // initialised to 0 or 1
      for (std::size_t at = 0; at < more.size(); ++at) values.values()[at] += 0.2f * more[at];
    assign(actual->parameters()[i]->value, values_of(values));
  }
  actual->move_to(other);
  const auto samples = sample_indices(input[0], 40);
  for (std::uint32_t step = 1; step < 3; ++step) {
    const Pass pass{.training = true, .seed = 3, .step = step, .samples = samples};
    const Tensor x = varied_tensor(input, step);
    const Tensor y = expected->forward(x.clone(), pass);
    const Tensor z = actual->forward(other.in_own_order(x.clone(), DataType::kFloat32), pass);
    ASSERT_EQ(z.shape(), y.shape());
    EXPECT_LE(distance(other.in_host_order(z.shared(), DataType::kFloat32).values(), y.values()),
              kTolerance);
    const Tensor dy = varied_tensor(y.shape(), step + 7);
    const Tensor dx = expected->backward(dy.clone(), {});
    const Tensor dz = actual->backward(other.in_own_order(dy.clone(), DataType::kFloat32), {});
    if (dx.count() > 0) {
      EXPECT_LE(
          distance(other.in_host_order(dz.shared(), DataType::kFloat32).values(), dx.values()),
          kTolerance);
    }
    for (std::size_t i = 0; i < expected->parameters().size(); ++i)
      EXPECT_LE(distance(actual->parameters()[i]->gradient.values(),
                         expected->parameters()[i]->gradient.values()),
                kTolerance)
          << expected->parameters()[i]->name;
    for (std::size_t i = 0; i < expected->buffers().size(); ++i)
      EXPECT_LE(
          distance(actual->buffers()[i]->value.values(), expected->buffers()[i]->value.values()),
          kTolerance)
          << expected->buffers()[i]->name;
  }
  const Tensor x = varied_tensor(input, 5);
  const Tensor y = expected->forward(x.clone(), {});
  const Tensor z = actual->forward(other.in_own_order(x.clone(), DataType::kFloat32), {});
  EXPECT_LE(distance(other.in_host_order(z.shared(), DataType::kFloat32).values(), y.values()),
            kTolerance);
}

TEST(ChannelsLast, ResidualNetworks) {
  expect_same(
      [] {
        return make_resnet({.channels = {16, 20}, .blocks = 2, .classes = 5});
      },
      {5, 3, 9, 7});
  expect_same(
      [] {
        return make_resnet({.channels = {4, 6},
                            .stage_blocks = {1, 2},
                            .has_bottlenecks = true,
                            .has_large_images = true});
      },
      {4, 3, 21, 18});
}

TEST(ChannelsLast, ConvolutionalNetworks) {
  for (const bool batch_norm : {false, true})
    expect_same(
        [&] {
          return make_cnn({.input = {3, 13, 11},
                           .channels = {5, 17},
                           .kernel = 3,
                           .padding = 1,
                           .hidden = {9},
                           .classes = 4,
                           .batch_norm = batch_norm,
                           .dropout = 0.25f});
        },
        {6, 3, 13, 11});
}

// Layers at the ends of a network, where images are converted; enough rows for several chunks.
TEST(ChannelsLast, OtherLayers) {
  const auto make = [] {
    auto network = std::make_unique<Sequential>();
    network->add(BatchNorm({.channels = 18}))
        .add(Dropout({.probability = 0.3f}))
        .add(Relu())
        .add(AvgPool2d({.kernel = 3, .stride = 2, .padding = 1}))
        .add(Conv2d({.in_channels = 18, .out_channels = 7, .kernel = 2}))
        .add(MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));
    return network;
  };
  expect_same(make, {7, 18, 11, 10});
  const auto make_vectors = [] {
    auto network = std::make_unique<Sequential>();
    network->add(Linear({.in_features = 6, .out_features = 5, .bias = false}))
        .add(BatchNorm({.channels = 5}))
        .add(Relu());
    return network;
  };
  expect_same(make_vectors, {9, 6});
}

TEST(ChannelsLast, ConvertsImagesOnly) {
  Backend& backend = cpu_backend(ImageLayout::kChannelsLast);
  const Tensor images = tensor_of({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor own = backend.in_own_order(images.clone(), DataType::kFloat32);
  EXPECT_EQ(values_of(own), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values_of(backend.in_host_order(own.clone(), DataType::kFloat32)), values_of(images));
  const Tensor vectors = tensor_of({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values_of(backend.in_own_order(vectors.clone(), DataType::kFloat32)),
            values_of(vectors));
}

}  // namespace
}  // namespace horo::ops

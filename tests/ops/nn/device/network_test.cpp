// Networks on a device against the same ones on the host: on the stand-in, and on a GPU.
#include "horo/base/error.h"
#include "ops/nn/batch_norm.h"
#include "ops/nn/conv2d.h"
#include "ops/nn/dropout.h"
#include "ops/nn/flatten.h"
#include "ops/nn/gelu.h"
#include "ops/nn/global_average_pool.h"
#include "ops/nn/initialise.h"
#include "ops/nn/linear.h"
#include "ops/nn/max_pool2d.h"
#include "ops/nn/models.h"
#include "ops/nn/relu.h"
#include "ops/nn/residual_block.h"
#include "ops/nn/resnet.h"
#include "tests/ops/nn/device/network_pair.h"

namespace horo::ops {
namespace {

struct Precision {
  DataType type;
  Tolerance tolerance;
};

class DeviceNetworks : public testing::TestWithParam<Precision> {
 protected:
  /// Two steps of batches of different sizes, and inference.
  static void expect_same(std::unique_ptr<Layer> model, const Shape& sample,
                          const Tolerance& tolerance = GetParam().tolerance) {
    NetworkPair pair(std::move(model), GetParam().type);
    const auto batch_of = [&](std::size_t count) {
      std::vector<std::size_t> dimensions = sample.dimensions();
      dimensions.insert(dimensions.begin(), count);
      return Shape(dimensions);
    };
    pair.expect_same_step(batch_of(6), 1, tolerance);
    pair.expect_same_step(batch_of(5), 2, tolerance);
    pair.expect_same_inference(batch_of(3), 3, tolerance);
  }
};

TEST_P(DeviceNetworks, Perceptron) {
  expect_same(make_mlp({.input = {2, 7, 9}, .hidden = {19, 12}, .classes = 5, .seed = 3}),
              {2, 7, 9});
}

TEST_P(DeviceNetworks, PerceptronWithDropoutAndBatchNorm) {
  expect_same(make_mlp({.input = {1, 7, 9},
                        .hidden = {19, 12},
                        .classes = 5,
                        .batch_norm = true,
                        .dropout = 0.3f,
                        .seed = 3}),
              {1, 7, 9});
}

TEST_P(DeviceNetworks, Convolutional) {
  expect_same(make_cnn({.input = {3, 13, 11},
                        .channels = {5, 7},
                        .kernel = 3,
                        .padding = 1,
                        .hidden = {9},
                        .classes = 4,
                        .dropout = 0.25f,
                        .seed = 5}),
              {3, 13, 11});
}

TEST_P(DeviceNetworks, ConvolutionalWithBatchNorm) {
  expect_same(make_cnn({.input = {2, 15, 12},
                        .channels = {6, 4},
                        .kernel = 3,
                        .hidden = {},
                        .classes = 3,
                        .batch_norm = true,
                        .seed = 5}),
              {2, 15, 12});
}

TEST_P(DeviceNetworks, Residual) {
  expect_same(
      make_resnet({.in_channels = 3, .channels = {4, 6}, .blocks = 2, .classes = 5, .seed = 7}),
      {3, 9, 7});
}

TEST_P(DeviceNetworks, OfResidualBlocksAlone) {
  const ResidualBlockOptions widening{.in_channels = 3, .out_channels = 5, .stride = 2};
  if (GetParam().type == DataType::kFloat32)  // float32 images have the layout of the host
    expect_same(std::make_unique<ResidualBlock>(widening), {3, 7, 6});
  auto network = std::make_unique<Sequential>();
  network->add(ResidualBlock(widening))
      .add(ResidualBlock({.in_channels = 5, .out_channels = 5}))
      .add(GlobalAveragePool());
  initialise(*network, 3);
  expect_same(std::move(network), {3, 7, 6});
}

// Linear layers and activations in all orders: fused in forward and backward, GELU with and without
// a multiple of 8 features, without bias, with Dropout between them, and with an activation at the
// end.
TEST_P(DeviceNetworks, OfActivationsBetweenLinearLayers) {
  auto network = std::make_unique<Sequential>();
  network->add(Flatten())
      .add("fc1", Linear({.in_features = 35, .out_features = 13, .input_gradient = false}))
      .add(Relu())
      .add("fc2", Linear({.in_features = 13, .out_features = 24}))
      .add(Gelu())
      .add("fc3", Linear({.in_features = 24, .out_features = 11}))
      .add(Gelu())
      .add("fc4", Linear({.in_features = 11, .out_features = 130, .bias = false}))
      .add("relu4", Relu())
      .add("fc5", Linear({.in_features = 130, .out_features = 16}))
      .add(Gelu())
      .add(Dropout({.probability = 0.3f}))
      .add("fc6", Linear({.in_features = 16, .out_features = 9}))
      .add(Relu())
      .add(Dropout({.probability = 0.2f}))
      .add("fc7", Linear({.in_features = 9, .out_features = 7}))
      .add("fc8", Linear({.in_features = 7, .out_features = 6}))
      .add(Gelu());
  expect_same(std::move(network), {5, 7});
}

// Features that no model of horo has: Dropout of images, an input gradient, layers without names.
TEST_P(DeviceNetworks, OfOtherLayers) {
  auto network = std::make_unique<Sequential>();
  network->add(Conv2d({.in_channels = 3, .out_channels = 6, .stride = 2, .padding = 1}))
      .add(Dropout({.probability = 0.4f}))
      .add(Relu())
      .add(MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));
  Sequential head;
  head.add("pool", GlobalAveragePool()).add("fc", Linear({.in_features = 6, .out_features = 4}));
  network->add(std::move(head));
  expect_same(std::move(network), {3, 11, 10});
}

// Layers whose gradients are continuous: a small error of a value causes a small error of its
// gradient.
TEST_P(DeviceNetworks, OfLayersWithoutKinks) {
  auto network = std::make_unique<Sequential>();
  network
      ->add(Conv2d({.in_channels = 3, .out_channels = 6, .stride = 2, .padding = 1, .bias = false}))
      .add(BatchNorm({.channels = 6}))
      .add(Dropout({.probability = 0.2f}))
      .add(Conv2d({.in_channels = 6, .out_channels = 5, .kernel = 2}))
      .add(Flatten())
      .add(Linear({.in_features = 5 * 5 * 4, .out_features = 7}));
  const bool is_exact = GetParam().type == DataType::kFloat32;
  expect_same(std::move(network), {3, 11, 10},
              is_exact ? GetParam().tolerance : Tolerance{0.01, 0.01});
}

TEST_P(DeviceNetworks, UploadAndDownloadKeepValues) {
  const auto make = [](std::uint64_t seed) {
    return make_resnet({.in_channels = 3, .channels = {4, 6}, .blocks = 1, .seed = seed});
  };
  const auto all_values = [](Layer& model) {
    std::vector<std::vector<float>> values;
    for (const Parameter* parameter : model.parameters())
      values.push_back(values_of(parameter->value));
    for (const Parameter* buffer : model.buffers()) values.push_back(values_of(buffer->value));
    return values;
  };
  DeviceSide side(GetParam().type);
  const auto first = make(1), second = make(2), back = make(3);
  std::uint32_t seed = 0;
  for (Parameter* buffer : second->buffers())
    assign(buffer->value, varied_values(buffer->value.count(), ++seed));
  const auto network = to_device(*first, side.compute());
  download_values(*network, *back, side.compute());
  EXPECT_EQ(all_values(*back), all_values(*first));
  upload_values(*second, *network, side.compute());
  for (const DeviceParameter* parameter : network->parameters()) {
    if (parameter->copy.count() == 0) continue;
    std::vector<float> values = side.download(parameter->value);
    for (float& value : values) value = static_cast<float>(BFloat16(value));
    EXPECT_EQ(side.download(parameter->copy), values) << parameter->name;
  }
  download_values(*network, *back, side.compute());
  EXPECT_EQ(all_values(*back), all_values(*second));
}

TEST_P(DeviceNetworks, WriteGradientsToTheirCurrentMemory) {
  NetworkPair pair(
      make_cnn(
          {.input = {2, 8, 8}, .channels = {3}, .kernel = 3, .hidden = {}, .batch_norm = true}),
      GetParam().type);
  pair.expect_same_step({4, 2, 8, 8}, 1, GetParam().tolerance);
  for (DeviceParameter* parameter : pair.network().parameters())
    parameter->gradient =
        pair.side().compute().allocate(parameter->gradient.shape(), parameter->gradient.type());
  pair.expect_same_step({4, 2, 8, 8}, 2, GetParam().tolerance);
}

TEST_P(DeviceNetworks, AllocateNoDriverMemoryAfterTwoSteps) {
  NetworkPair pair(make_resnet({.in_channels = 3, .channels = {4, 6}, .blocks = 1}),
                   GetParam().type);
  const auto step = [&] {
    DeviceSide& side = pair.side();
    const Tensor logits =
        pair.network().forward(side.upload(varied_tensor({5, 3, 9, 7}, 1)), {.training = true});
    (void)pair.network().backward(
        side.upload(varied_tensor(logits.shape(), 2), side.compute().type()), {});
    return side.compute().allocator().counters();
  };
  step();
  const auto counters = step();
  EXPECT_GT(counters.driver_allocations, 0u);
  for (int i = 0; i < 5; ++i) {
    const auto later = step();
    EXPECT_EQ(later.driver_allocations, counters.driver_allocations);
    EXPECT_EQ(later.in_use_bytes, counters.in_use_bytes);
    EXPECT_GT(later.requests, counters.requests);
  }
}

// With 8 bits of precision, some values are on the other side of a kink of ReLU or of the maximum,
// which affects the gradients of few samples visibly. Values at a wrong position have errors of 1
// or more.
INSTANTIATE_TEST_SUITE_P(In, DeviceNetworks,
                         testing::Values(Precision{DataType::kFloat32, {1e-5, 1e-5}},
                                         Precision{DataType::kBFloat16, {0.03, 0.5}}),
                         [](const auto& test) { return std::string(name_of(test.param.type)); });

TEST(DeviceNetwork, HasParametersInTheDevicesOrder) {
  const auto host = make_cnn(
      {.input = {2, 9, 8}, .channels = {3}, .kernel = 3, .hidden = {}, .batch_norm = true});
  DeviceSide wide(DataType::kFloat32), narrow(DataType::kBFloat16);
  const auto first = to_device(*host, wide.compute()), last = to_device(*host, narrow.compute());
  const DeviceParameter& filter = *first->parameters()[0];
  EXPECT_EQ(filter.name, "conv1.weight");
  EXPECT_EQ(filter.value.shape(), (Shape{3, 2, 3, 3}));
  EXPECT_FALSE(filter.is_channels_last);
  EXPECT_EQ(filter.copy.count(), 0u);
  EXPECT_EQ(filter.gradient.type(), DataType::kFloat32);
  const DeviceParameter& turned = *last->parameters()[0];
  EXPECT_EQ(turned.value.shape(), (Shape{3, 3, 3, 2}));
  EXPECT_EQ(turned.value.type(), DataType::kFloat32);
  EXPECT_TRUE(turned.is_channels_last);
  EXPECT_EQ(turned.copy.type(), DataType::kBFloat16);
  EXPECT_EQ(turned.gradient.type(), DataType::kBFloat16);
  const DeviceParameter& scale = *last->parameters()[1];
  EXPECT_EQ(scale.name, "conv_norm1.weight");
  EXPECT_EQ(scale.copy.count(), 0u);
  EXPECT_EQ(scale.gradient.type(), DataType::kFloat32);
  EXPECT_EQ(last->buffers()[1]->name, "conv_norm1.running_variance");
  EXPECT_EQ(last->buffers()[1]->gradient.count(), 0u);
}

/// A user-defined layer.
class Negative : public Layer {
  Tensor forward(Tensor input, const Pass&) override { return input; }
  Tensor backward(Tensor gradient, const GradientReady&) override { return gradient; }
};

TEST(DeviceNetwork, NamesTheLayerThatHasNoCounterpart) {
  DeviceSide side(DataType::kFloat32);
  Sequential inner, network;
  inner.add("negative", Negative());
  network.add("flatten", Flatten()).add("head", std::move(inner));
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { (void)to_device(network, side.compute()); }),
      "layer 'head': layer 'negative': this kind of layer is not supported on devices: train on "
      "the CPU, or build the model from the layers of ops/nn");
}

TEST(DeviceNetwork, NamesWhatDoesNotFit) {
  DeviceSide side(DataType::kBFloat16);
  const auto host =
      make_cnn({.input = {2, 9, 8}, .channels = {3}, .kernel = 3, .hidden = {}, .dropout = 0.5f});
  const auto network = to_device(*host, side.compute());
  const auto forward_error = [&](const Shape& shape) {
    return message_of<InvalidArgument>(
        [&] { (void)network->forward(side.upload(Tensor::zeros(shape)), {.training = true}); });
  };
  EXPECT_EQ(forward_error({4, 3, 9, 8}),
            "layer 'conv1': Conv2d: input has shape [4, 3, 9, 8]; expected [batch, 2, height, "
            "width] of at least 3 x 3 pixels with padding");
  EXPECT_EQ(forward_error({4, 2, 9, 6}),
            "layer 'output': Linear: input has shape [4, 18]; expected [batch, 27]");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              const Tensor input = Tensor::zeros({4, 2, 9, 8});
              (void)network->forward(side.upload(input, DataType::kBFloat16), {});
            }),
            "network on a device: input has type bfloat16; expected float32");
  Sequential blocks;
  blocks.add("relu", Relu()).add("block", ResidualBlock({.in_channels = 3, .out_channels = 3}));
  const auto residual = to_device(blocks, side.compute());
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        (void)residual->forward(side.upload(Tensor::zeros({4, 2, 9, 8})), {.training = true});
      }),
      "layer 'block': layer 'conv1': Conv2d: input has shape [4, 2, 9, 8]; expected [batch, 3, "
      "height, width] of at least 3 x 3 pixels with padding");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              const Tensor gradient = Tensor::zeros({4, 3, 9, 8});
              (void)residual->backward(side.upload(gradient, DataType::kBFloat16), {});
            }),
            "layer 'block': ResidualBlock: backward() requires a training forward() before it");
  const auto backward_error = [&](const Shape& shape, DataType type) {
    return message_of<InvalidArgument>(
        [&] { (void)network->backward(side.upload(Tensor::zeros(shape), type), {}); });
  };
  EXPECT_EQ(backward_error({4, 10}, DataType::kFloat32),
            "network on a device: output gradient has type float32; expected bfloat16");
  (void)network->forward(side.upload(Tensor::zeros({4, 2, 9, 8})), {.training = true});
  EXPECT_EQ(backward_error({4, 9}, DataType::kBFloat16),
            "layer 'output': Linear: output gradient has shape [4, 9]; expected [4, 10]");
  EXPECT_EQ(backward_error({4, 10}, DataType::kBFloat16),
            "layer 'output': Linear: backward() requires a training forward() before it");
}

TEST(DeviceNetwork, DropoutNeedsTheSamples) {
  DeviceSide side(DataType::kFloat32);
  const auto host = make_mlp({.input = {6}, .hidden = {4}, .dropout = 0.5f});
  const auto network = to_device(*host, side.compute());
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)network->forward(side.upload(Tensor::zeros({3, 6})), {.training = true});
            }),
            "layer 'dropout1': Dropout: pass.samples is null; training requires the global sample "
            "indices");
  EXPECT_EQ(network->forward(side.upload(Tensor::zeros({3, 6})), {}).shape(), (Shape{3, 10}));
}

TEST(DeviceNetwork, RefusesValuesOfAnotherModel) {
  DeviceSide side(DataType::kBFloat16);
  const auto model = [](std::size_t hidden, std::size_t stages) {
    return make_mlp({.input = {6}, .hidden = std::vector<std::size_t>(stages, hidden)});
  };
  const auto network = to_device(*model(4, 1), side.compute());
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { upload_values(*model(5, 1), *network, side.compute()); }),
      "the model on the device has 'fc1.weight' [4, 6], but the model on the host has "
      "'fc1.weight' [5, 6]; create it with to_device() from the same model");
  const auto deeper = model(4, 2);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { download_values(*network, *deeper, side.compute()); }),
      "the model on the device has 4 parameters, but the model on the host has 6; "
      "create it with to_device() from the same model");
}

TEST(DeviceNetwork, OtherBuffersLeaveAllValuesUnchanged) {
  DeviceSide side(DataType::kBFloat16);
  Sequential model, other;
  model.add("norm", BatchNorm({.channels = 4}));
  other.add("norm", BatchNorm({.channels = 4}));
  const auto network = to_device(model, side.compute());
  vary_parameters(other);
  other.buffers().front()->name = "other";
  const std::string text =
      "the model on the device has 'norm.running_mean' [4], but the model on the host has 'other' "
      "[4]; create it with to_device() from the same model";
  const std::vector<float> on_device = values_of(model.parameters().front()->value);
  const std::vector<float> on_host = values_of(other.parameters().front()->value);
  EXPECT_EQ(message_of<InvalidArgument>([&] { upload_values(other, *network, side.compute()); }),
            text);
  EXPECT_EQ(side.download(network->parameters().front()->value), on_device);
  EXPECT_EQ(message_of<InvalidArgument>([&] { download_values(*network, other, side.compute()); }),
            text);
  EXPECT_EQ(values_of(other.parameters().front()->value), on_host);
}

TEST(DeviceCompute, ComputesWithTwoTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] { DeviceSide side(DataType::kFloat16); }),
            "a device computes with float32 or bfloat16, not with float16");
  EXPECT_EQ(DeviceSide(DataType::kFloat32).compute().layout(), ImageLayout::kChannelsFirst);
  EXPECT_EQ(DeviceSide(DataType::kBFloat16).compute().layout(), ImageLayout::kChannelsLast);
}

}  // namespace
}  // namespace horo::ops

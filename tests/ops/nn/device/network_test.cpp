// Networks on a device against the same ones on the host: on the stand-in, and on a GPU.
#include <gmock/gmock.h>

#include "horo/base/error.h"
#include "ops/backend/device/update/step_state.h"
#include "ops/nn/fusion/fusion.h"
#include "ops/nn/initialise.h"
#include "ops/nn/layers/avg_pool2d.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/causal_attention.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/dropout.h"
#include "ops/nn/layers/flatten.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/global_average_pool.h"
#include "ops/nn/layers/layer_norm.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/max_pool2d.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/gpt.h"
#include "ops/nn/models/models.h"
#include "ops/nn/models/residual.h"
#include "ops/nn/models/residual_block.h"
#include "ops/nn/models/resnet.h"
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
  static void expect_same(const MakeModel& make, const Shape& sample,
                          const Tolerance& tolerance = GetParam().tolerance) {
    NetworkPair pair(make, GetParam().type);
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
  expect_same(
      [] {
        return make_mlp({.input = {2, 7, 9}, .hidden = {19, 12}, .classes = 5, .seed = 3});
      },
      {2, 7, 9});
}

TEST_P(DeviceNetworks, PerceptronWithDropoutAndBatchNorm) {
  expect_same(
      [] {
        return make_mlp({.input = {1, 7, 9},
                         .hidden = {19, 12},
                         .classes = 5,
                         .batch_norm = true,
                         .dropout = 0.3f,
                         .seed = 3});
      },
      {1, 7, 9});
}

TEST_P(DeviceNetworks, Convolutional) {
  expect_same(
      [] {
        return make_cnn({.input = {3, 13, 11},
                         .channels = {5, 7},
                         .kernel = 3,
                         .padding = 1,
                         .hidden = {9},
                         .classes = 4,
                         .dropout = 0.25f,
                         .seed = 5});
      },
      {3, 13, 11});
}

TEST_P(DeviceNetworks, ConvolutionalWithBatchNorm) {
  expect_same(
      [] {
        return make_cnn({.input = {2, 15, 12},
                         .channels = {6, 4},
                         .kernel = 3,
                         .hidden = {},
                         .classes = 3,
                         .batch_norm = true,
                         .seed = 5});
      },
      {2, 15, 12});
}

TEST_P(DeviceNetworks, Residual) {
  const ResnetOptions options{
      .in_channels = 3, .channels = {4, 6}, .blocks = 2, .classes = 5, .seed = 7};
  expect_same([&] { return make_resnet(options); }, {3, 9, 7});
}

TEST_P(DeviceNetworks, OfResidualBlocksAlone) {
  const ResidualBlockOptions widening{.in_channels = 3, .out_channels = 5, .stride = 2};
  expect_same([&] { return std::make_unique<ResidualBlock>(widening); }, {3, 7, 6});
  const auto make = [&] {
    auto network = std::make_unique<Sequential>();
    network->add(ResidualBlock(widening))
        .add(ResidualBlock({.in_channels = 5, .out_channels = 5}))
        .add(GlobalAveragePool());
    initialise(*network, 3);
    return network;
  };
  expect_same(make, {3, 7, 6});
}

// Linear layers and activations in all orders: fused in forward and backward, GELU with and without
// a multiple of 8 features, without bias, with Dropout between them, and with an activation at the
// end.
TEST_P(DeviceNetworks, OfActivationsBetweenLinearLayers) {
  const auto make = [] {
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
    return network;
  };
  expect_same(make, {5, 7});
}

// Features that no model of horo has: Dropout of images, an input gradient, layers without names.
TEST_P(DeviceNetworks, OfOtherLayers) {
  const auto make = [] {
    auto network = std::make_unique<Sequential>();
    network->add(Conv2d({.in_channels = 3, .out_channels = 6, .stride = 2, .padding = 1}))
        .add(Dropout({.probability = 0.4f}))
        .add(Relu())
        .add(MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}))
        .add(AvgPool2d({.kernel = 2, .stride = 1, .padding = 1}));
    Sequential head;
    head.add("pool", GlobalAveragePool()).add("fc", Linear({.in_features = 6, .out_features = 4}));
    network->add(std::move(head));
    return network;
  };
  expect_same(make, {3, 11, 10});
}

// Attention and a perceptron, with odd sizes: on a device, the perceptron is one group of layers.
TEST_P(DeviceNetworks, OfBranchesOverSequences) {
  const auto make = [] {
    Sequential attention;
    attention.add("norm", LayerNorm({.features = 12}))
        .add("heads", CausalAttention({.width = 12, .heads = 3}))
        .add(Dropout({.probability = 0.2f}));
    Sequential mlp;
    mlp.add("norm", LayerNorm({.features = 12}))
        .add("fc", Linear({.in_features = 12, .out_features = 40}))
        .add(Gelu())
        .add("output", Linear({.in_features = 40, .out_features = 12}));
    auto network = std::make_unique<Sequential>();
    network->add("attention", Residual(std::move(attention)))
        .add("mlp", Residual(std::move(mlp)))
        .add("head", Linear({.in_features = 12, .out_features = 5, .bias = false}));
    return network;
  };
  const bool is_exact = GetParam().type == DataType::kFloat32;
  expect_same(make, {7, 12}, is_exact ? GetParam().tolerance : Tolerance{0.02, 0.03});
}

TEST_P(DeviceNetworks, OfTokens) {
  NetworkPair pair(
      [] {
        return make_gpt({.vocabulary = 11,
                         .positions = 9,
                         .layers = 2,
                         .heads = 2,
                         .width = 16,
                         .dropout = 0.1f,
                         .seed = 4});
      },
      GetParam().type);
  const bool is_exact = GetParam().type == DataType::kFloat32;
  const Tolerance tolerance = is_exact ? GetParam().tolerance : Tolerance{0.02, 0.03};
  std::uint32_t seed = 1;
  for (const Shape& shape : {Shape{4, 9}, Shape{3, 7}}) {
    Tensor tokens(shape, DataType::kInt32);
    for (std::int32_t& token : tokens.values<std::int32_t>()) {
      seed += 7;
      token = static_cast<std::int32_t>(seed * seed % 11);
    }
    pair.expect_same_step(tokens, seed, tolerance);
    pair.expect_same_inference(tokens, tolerance);
  }
}

// Layers whose gradients are continuous: a small error of a value causes a small error of its
// gradient.
TEST_P(DeviceNetworks, OfLayersWithoutKinks) {
  const auto make = [] {
    auto network = std::make_unique<Sequential>();
    network
        ->add(
            Conv2d({.in_channels = 3, .out_channels = 6, .stride = 2, .padding = 1, .bias = false}))
        .add(BatchNorm({.channels = 6}))
        .add(Dropout({.probability = 0.2f}))
        .add(Conv2d({.in_channels = 6, .out_channels = 5, .kernel = 2}))
        .add(Flatten())
        .add(Linear({.in_features = 5 * 5 * 4, .out_features = 7}));
    return network;
  };
  const bool is_exact = GetParam().type == DataType::kFloat32;
  expect_same(make, {3, 11, 10}, is_exact ? GetParam().tolerance : Tolerance{0.01, 0.01});
}

TEST_P(DeviceNetworks, MovesKeepValues) {
  const auto model = make_resnet({.in_channels = 3, .channels = {4, 6}, .blocks = 1, .seed = 1});
  const auto all_values = [&] {
    std::vector<std::vector<float>> values;
    for (const Parameter* parameter : model->parameters())
      values.push_back(values_of(parameter->value));
    for (const Parameter* buffer : model->buffers()) values.push_back(values_of(buffer->value));
    return values;
  };
  std::uint32_t seed = 0;
  for (Parameter* buffer : model->buffers())
    assign(buffer->value, varied_values(buffer->value.count(), ++seed));
  const auto before = all_values();
  DeviceSide first(DataType::kFloat32), second(GetParam().type);
  model->move_to(first.backend());
  model->move_to(second.backend());
  for (const Parameter* parameter : model->parameters()) {
    EXPECT_EQ(parameter->value.device(), &second.backend().device());
    if (parameter->copy.count() == 0) continue;
    std::vector<float> values = second.download(parameter->value);
    for (float& value : values) value = rounded_to(GetParam().type, value);
    EXPECT_EQ(second.download(parameter->copy), values) << parameter->name;
  }
  model->move_to(cpu_backend());
  EXPECT_EQ(all_values(), before);
  EXPECT_EQ(model->parameters().front()->copy.count(), 0u);
}

TEST_P(DeviceNetworks, WriteGradientsToTheirCurrentMemory) {
  const CnnOptions options{
      .input = {2, 8, 8}, .channels = {3}, .kernel = 3, .hidden = {}, .batch_norm = true};
  NetworkPair pair([&] { return make_cnn(options); }, GetParam().type);
  pair.expect_same_step({4, 2, 8, 8}, 1, GetParam().tolerance);
  for (Parameter* parameter : pair.network().parameters())
    parameter->gradient =
        pair.side().backend().allocate(parameter->gradient.shape(), parameter->gradient.type());
  pair.expect_same_step({4, 2, 8, 8}, 2, GetParam().tolerance);
}

TEST_P(DeviceNetworks, AllocateNoDriverMemoryAfterTwoSteps) {
  NetworkPair pair(
      [] {
        return make_resnet({.in_channels = 3, .channels = {4, 6}, .blocks = 1});
      },
      GetParam().type);
  const auto step = [&] {
    DeviceSide& side = pair.side();
    const Tensor logits =
        pair.network().forward(side.give(varied_tensor({5, 3, 9, 7}, 1)), {.training = true});
    (void)pair.network().backward(side.give(varied_tensor(logits.shape(), 2)), {});
    return side.backend().allocator().counters();
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

// With 8 or 11 bits of precision, some values are on the other side of a kink of ReLU or of the
// maximum, which affects the gradients of few samples visibly. Values at a wrong position have
// errors of 1 or more.
INSTANTIATE_TEST_SUITE_P(In, DeviceNetworks,
                         testing::Values(Precision{DataType::kFloat32, {1e-5, 1e-5}},
                                         Precision{DataType::kBFloat16, {0.03, 0.5}},
                                         Precision{DataType::kFloat16, {0.004, 0.2}}),
                         [](const auto& test) { return std::string(name_of(test.param.type)); });

// Only in float32: with few channels, the rounding of bfloat16 moves many values over a kink of
// ReLU.
TEST(DeviceNetwork, OfBottlenecksMatchesTheHost) {
  for (const bool has_large_images : {false, true}) {
    const ResnetOptions options{.channels = {3, 4},
                                .stage_blocks = {1, 2},
                                .classes = 5,
                                .has_bottlenecks = true,
                                .has_large_images = has_large_images,
                                .seed = 7};
    NetworkPair pair([&] { return make_resnet(options); }, DataType::kFloat32);
    pair.expect_same_step({5, 3, 19, 15}, 1, {1e-5, 2e-4});
    pair.expect_same_inference({3, 3, 19, 15}, 2, {1e-5, 5e-5});
  }
}

TEST(DeviceNetwork, HasParametersInTheTypesOfTheBackend) {
  const auto make = [] {
    return make_cnn(
        {.input = {2, 9, 8}, .channels = {3}, .kernel = 3, .hidden = {}, .batch_norm = true});
  };
  NetworkPair wide(make, DataType::kFloat32), narrow(make, DataType::kBFloat16);
  const Parameter& filter = *wide.network().parameters()[0];
  EXPECT_EQ(filter.name, "conv1.weight");
  EXPECT_EQ(filter.copy.count(), 0u);
  EXPECT_EQ(filter.gradient.type(), DataType::kFloat32);
  const Parameter& turned = *narrow.network().parameters()[0];
  EXPECT_EQ(turned.value.shape(), (Shape{3, 2, 3, 3}));
  EXPECT_EQ(turned.value.type(), DataType::kFloat32);
  EXPECT_EQ(turned.copy.type(), DataType::kBFloat16);
  EXPECT_EQ(turned.gradient.type(), DataType::kBFloat16);
  const Parameter& scale = *narrow.network().parameters()[1];
  EXPECT_EQ(scale.name, "conv_norm1.weight");
  EXPECT_EQ(scale.copy.count(), 0u);
  EXPECT_EQ(scale.gradient.type(), DataType::kFloat32);
  EXPECT_EQ(narrow.network().buffers()[1]->name, "conv_norm1.running_variance");
  EXPECT_EQ(narrow.network().buffers()[1]->gradient.count(), 0u);
}

/// A layer of a program that computes on the CPU only.
class Negative : public Layer {
  Tensor forward(Tensor input, const Pass&) override {
    for (float& value : input.values()) value = -value;
    return input;
  }
  Tensor backward(Tensor gradient, const GradientReady&) override { return gradient; }
};

TEST(DeviceNetwork, NamesTheLayerThatReadsHostMemory) {
  DeviceSide side(DataType::kFloat32);
  Sequential inner, network;
  inner.add("negative", Negative());
  network.add("flatten", Flatten()).add("head", std::move(inner));
  network.move_to(side.backend());
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)network.forward(side.give(Tensor::zeros({3, 4})), {});
            }),
            "layer 'head': layer 'negative': the values of a tensor on " +
                side.backend().device().describe() +
                " cannot be read by the host: copy it to host memory first");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)side.backend().in_own_order(Tensor::zeros({3, 4}), DataType::kFloat32);
            }),
            "a tensor of shape [3, 4] is in host memory, but the model computes on " +
                side.backend().device().describe());
}

TEST(DeviceNetwork, NamesWhatDoesNotFit) {
  const auto make = [] {
    return make_cnn(
        {.input = {2, 9, 8}, .channels = {3}, .kernel = 3, .hidden = {}, .dropout = 0.5f});
  };
  NetworkPair pair(make, DataType::kBFloat16);
  DeviceSide& side = pair.side();
  const auto forward_error = [&](Layer& layer, const Shape& shape) {
    return message_of<InvalidArgument>(
        [&] { (void)layer.forward(side.give(Tensor::zeros(shape)), {.training = true}); });
  };
  const auto backward_error = [&](Layer& layer, const Shape& shape) {
    return message_of<InvalidArgument>(
        [&] { (void)layer.backward(side.give(Tensor::zeros(shape)), {}); });
  };
  Layer& network = pair.network();
  EXPECT_EQ(forward_error(network, {4, 3, 9, 8}),
            "layer 'conv1': Conv2d: input has shape [4, 3, 9, 8]; expected [batch, 2, height, "
            "width] of at least 3 x 3 pixels with padding");
  EXPECT_EQ(forward_error(network, {4, 2, 9, 6}),
            "layer 'output': Linear: input has shape [4, 18]; expected [batch, ..., 27]");
  (void)network.forward(side.give(Tensor::zeros({4, 2, 9, 8})), {.training = true});
  EXPECT_EQ(backward_error(network, {4, 9}),
            "layer 'output': Linear: output gradient has shape [4, 9]; expected [4, 10]");
  EXPECT_EQ(backward_error(network, {4, 10}),
            "layer 'output': Linear: backward() requires a training forward() before it");
  Sequential blocks;
  blocks.add("relu", Relu()).add("block", ResidualBlock({.in_channels = 3, .out_channels = 3}));
  blocks.move_to(side.backend());
  EXPECT_EQ(forward_error(blocks, {4, 2, 9, 8}),
            "layer 'block': layer 'conv1': Conv2d: input has shape [4, 2, 9, 8]; expected [batch, "
            "3, height, width] of at least 3 x 3 pixels with padding");
  EXPECT_EQ(backward_error(blocks, {4, 3, 9, 8}),
            "layer 'block': ResidualBlock: backward() requires a training forward() before it");
  blocks.move_to(cpu_backend());
}

TEST(DeviceNetwork, GroupsWhatIsFusedTogether) {
  const auto names = [](Sequential& network, Backend& backend) {
    network.move_to(backend);
    std::vector<std::string> all;
    for (const Stage& stage : fuse(network.stages(), backend).stages)
      all.push_back(stage.name + (stage.is_group ? " and more" : ""));
    return all;
  };
  Sequential network;
  network.add("conv", Conv2d({.in_channels = 3, .out_channels = 4}))
      .add("norm", BatchNorm({.channels = 4}))
      .add("relu", Relu())
      .add("block1", ResidualBlock({.in_channels = 4, .out_channels = 4}))
      .add("block2", ResidualBlock({.in_channels = 4, .out_channels = 4}))
      .add("norm2", BatchNorm({.channels = 4}))
      .add("flatten", Flatten())
      .add("fc1", Linear({.in_features = 4, .out_features = 5}))
      .add("relu2", Relu())
      .add("fc2", Linear({.in_features = 5, .out_features = 2}));
  DeviceSide side(DataType::kFloat32);
  EXPECT_THAT(names(network, side.backend()),
              testing::ElementsAre("conv", "norm and more", "block1 and more", "norm2", "flatten",
                                   "fc1 and more"));
  EXPECT_EQ(names(network, cpu_backend()).size(), network.size());
}

TEST(DeviceNetwork, DropoutNeedsTheSamples) {
  NetworkPair pair([] { return make_mlp({.input = {6}, .hidden = {4}, .dropout = 0.5f}); },
                   DataType::kFloat32);
  const auto input = [&] { return pair.side().give(Tensor::zeros({3, 6})); };
  EXPECT_EQ(message_of<InvalidArgument>(
                [&] { (void)pair.network().forward(input(), {.training = true}); }),
            "layer 'dropout1': Dropout: 0 sample indices for input [3, 4]; expected 3");
  EXPECT_EQ(pair.network().forward(input(), {}).shape(), (Shape{3, 10}));
}

TEST(DeviceNetwork, DropoutOfACapturedStepFollowsTheStep) {
  using device_kernels::StepState;
  DeviceSide side(DataType::kFloat32);
  device::Device& device = side.backend().device();
  device::Stream& stream = side.backend().stream();
  const device::Memory state = device.allocate(sizeof(StepState));
  auto* const step = reinterpret_cast<StepState*>(state.data());
  const auto samples = sample_indices(4);
  const auto on_device = side.give_samples(samples);
  const Tensor values = varied_tensor({4, 16}, 1);
  const Tensor input = side.give(values);
  Dropout layer, host;
  layer.move_to(side.backend());
  Tensor output;
  const auto graph = device.capture(stream, [&] {
    output = layer.forward(
        input.shared(),
        {.training = true, .seed = 9, .device_step = &step->step, .samples = on_device});
  });
  for (std::uint64_t number = 0; number < 3; ++number) {
    device_kernels::set_step(stream, step, {number, 0});
    graph->launch(stream);
    const Tensor expected = host.forward(
        values.clone(), {.training = true, .seed = 9, .step = number, .samples = samples});
    EXPECT_EQ(side.download(output), values_of(expected)) << "step " << number;
  }
}

TEST(DeviceNetwork, IsZeroAfterAReset) {
  const auto model = make_mlp({.input = {6}, .hidden = {4}, .batch_norm = true});
  {
    DeviceSide side(DataType::kBFloat16);
    model->move_to(side.backend());
    model->reset_to(cpu_backend());
  }
  for (const Parameter* parameter : model->parameters())
    EXPECT_EQ(values_of(parameter->value), std::vector<float>(parameter->value.count(), 0.0f));
  EXPECT_EQ(model->forward(varied_tensor({3, 6}, 1), {.training = true}).shape(), (Shape{3, 10}));
}

TEST(DeviceBackend, ComputesWithThreeTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] { DeviceSide side(DataType::kFloat64); }),
            "a device computes with float32, bfloat16 or float16, not with float64");
  EXPECT_EQ(DeviceSide(DataType::kFloat32).backend().layout(), ImageLayout::kChannelsFirst);
  EXPECT_EQ(DeviceSide(DataType::kBFloat16).backend().layout(), ImageLayout::kChannelsLast);
  EXPECT_EQ(DeviceSide(DataType::kFloat16).backend().layout(), ImageLayout::kChannelsLast);
}

}  // namespace
}  // namespace horo::ops

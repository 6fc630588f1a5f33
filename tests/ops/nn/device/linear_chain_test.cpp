// Fused linear layers and activations, on the stand-in and on a GPU.
#include "horo/base/error.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/models.h"
#include "tests/ops/nn/device/network_pair.h"

namespace horo::ops {
namespace {

/// Linear layers of those sizes with activations between them. With `apart`, each layer is in a
/// separate Sequential, so that no layers are fused.
template <typename AnyActivation>
std::unique_ptr<Layer> linear_layers(const std::vector<std::size_t>& sizes, bool apart) {
  auto network = std::make_unique<Sequential>();
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (i > 1) network->add(AnyActivation());
    Linear linear({.in_features = sizes[i - 1], .out_features = sizes[i]});
    Sequential alone;
    if (apart)
      network->add(std::move(alone.add(std::move(linear))));
    else
      network->add(std::move(linear));
  }
  vary_parameters(*network);
  return network;
}

/// The output and all gradients of a step.
std::vector<std::vector<float>> step_of(const std::unique_ptr<Layer>& model, const Shape& input,
                                        DataType type) {
  DeviceSide side(type);
  model->move_to(side.backend());
  const Tensor output = model->forward(side.give(varied_tensor(input, 1)), {.training = true});
  const Tensor back = model->backward(side.give(varied_tensor(output.shape(), 2)), {});
  std::vector<std::vector<float>> values{side.download(output), side.download(back)};
  for (const Parameter* parameter : model->parameters())
    values.push_back(side.download(parameter->gradient));
  model->move_to(cpu_backend());
  return values;
}

template <typename AnyActivation>
void expect_same_as_apart(const std::vector<std::size_t>& sizes, std::size_t batch, DataType type,
                          double tolerance) {
  const auto together =
      step_of(linear_layers<AnyActivation>(sizes, false), {batch, sizes[0]}, type);
  const auto apart = step_of(linear_layers<AnyActivation>(sizes, true), {batch, sizes[0]}, type);
  ASSERT_EQ(together.size(), apart.size());
  for (std::size_t i = 0; i < apart.size(); ++i)
    EXPECT_LE(relative_error(together[i], apart[i]), tolerance) << i << " of a batch of " << batch;
}

class DeviceLinearChains : public testing::TestWithParam<DataType> {};

// With bfloat16, a ReLU whose input is close to zero may switch, because the two ways may round
// differently. This changes the gradient of one of about 130 values.
TEST_P(DeviceLinearChains, MatchTheirSeparateLayers) {
  const bool is_exact = GetParam() == DataType::kFloat32;
  const std::vector<std::size_t> even{16, 24, 136, 8}, odd{5, 9, 131, 3};
  for (const std::size_t batch : {1, 7})
    for (const auto& sizes : {even, odd})
      expect_same_as_apart<Relu>(sizes, batch, GetParam(), is_exact ? 1e-5 : 0.1);
  for (const auto& sizes : {even, odd})
    expect_same_as_apart<Gelu>(sizes, 7, GetParam(), is_exact ? 1e-5 : 0.02);
}

// The chain stores one bit for each value of a ReLU, and not the inputs of the ReLU.
TEST_P(DeviceLinearChains, StoreTheOutputAndBitsOfRelu) {
  const auto model = make_mlp({.input = {512}, .hidden = {1024}, .classes = 256});
  DeviceSide side(GetParam());
  model->move_to(side.backend());
  const auto in_use = [&] { return side.backend().allocator().counters().in_use_bytes; };
  const std::size_t batch = 512, value = size_of(GetParam());
  std::size_t before = 0;
  for (int step = 0; step < 2; ++step) {  // libraries allocate their memory in the first
    before = in_use();
    const Tensor logits = model->forward(side.backend().allocate({batch, 512}), {.training = true});
    if (step == 1) {
      EXPECT_LE(in_use() - before, batch * ((512 + 1024 + 256) * value + 1024 / 8));
    }
    (void)model->backward(side.backend().allocate({batch, 256}), {});
  }
  EXPECT_EQ(in_use(), before);
  model->move_to(cpu_backend());
}

INSTANTIATE_TEST_SUITE_P(In, DeviceLinearChains,
                         testing::Values(DataType::kFloat32, DataType::kBFloat16,
                                         DataType::kFloat16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(DeviceLinearChain, NamesTheLayerThatDoesNotFit) {
  DeviceSide side(DataType::kFloat32);
  Sequential host;
  host.add("fc1", Linear({.in_features = 6, .out_features = 8}))
      .add("relu1", Relu())
      .add("fc2", Linear({.in_features = 9, .out_features = 4}));
  host.move_to(side.backend());
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)host.forward(side.give(Tensor::zeros({3, 7})), {.training = true});
            }),
            "layer 'fc1': Linear: input has shape [3, 7]; expected [batch, ..., 6]");
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)host.forward(side.give(Tensor::zeros({3, 6})), {.training = true});
            }),
            "layer 'fc2': Linear: input has shape [3, 8]; expected [batch, ..., 9]");

  Sequential with_end;
  with_end.add("fc", Linear({.in_features = 6, .out_features = 8})).add("end", Relu());
  with_end.move_to(side.backend());
  (void)with_end.forward(side.give(Tensor::zeros({3, 6})), {.training = true});
  const auto backward_error = [&](const Shape& shape) {
    return message_of<InvalidArgument>(
        [&] { (void)with_end.backward(side.give(Tensor::zeros(shape)), {}); });
  };
  EXPECT_EQ(backward_error({3, 7}),
            "layer 'end': Relu: output gradient has shape [3, 7]; expected [3, 8]");
  EXPECT_EQ(backward_error({3, 8}),
            "layer 'end': Relu: backward() requires a training forward() before it");
  host.move_to(cpu_backend());
  with_end.move_to(cpu_backend());
}

}  // namespace
}  // namespace horo::ops

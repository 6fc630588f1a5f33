// The layers of sequences against the reference, and their errors.
#include "horo/base/error.h"
#include "ops/nn/layers/causal_attention.h"
#include "ops/nn/layers/embedding.h"
#include "ops/nn/layers/layer_norm.h"
#include "ops/nn/models/residual.h"
#include "tests/ops/support/passes.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/reference_kernels/attention.h"
#include "tests/support/reference_kernels/inner_product.h"
#include "tests/support/reference_kernels/layer_norm.h"

namespace horo::ops {
namespace {

Tensor tokens_of(const Shape& shape, const std::vector<std::int32_t>& values) {
  Tensor tensor(shape, DataType::kInt32);
  EXPECT_EQ(tensor.count(), values.size());
  std::ranges::copy(values, tensor.data<std::int32_t>());
  return tensor;
}

TEST(Linear, AppliesToTheLastDimension) {
  Linear layer({.in_features = 5, .out_features = 3});
  vary_parameters(layer);
  const Tensor input = varied_tensor({2, 4, 5}, 1), gradient = varied_tensor({2, 4, 3}, 2);
  const auto outputs_of = [&](const Shape& in, const Shape& out) {
    Tensor output = layer.forward(input.clone().reshaped(in), kTraining);
    EXPECT_EQ(output.shape(), out);
    const Tensor back = layer.backward(gradient.clone().reshaped(out), {});
    EXPECT_EQ(back.shape(), in);
    return std::pair(values_of(output), values_of(back));
  };
  EXPECT_EQ(outputs_of({2, 4, 5}, {2, 4, 3}), outputs_of({8, 5}, {8, 3}));
}

TEST(LayerNorm, MatchesReference) {
  for (const Shape& shape : {Shape{4, 9}, Shape{2, 3, 37}}) {
    LayerNorm layer({.features = shape[shape.rank() - 1], .epsilon = 1e-3f});
    EXPECT_EQ(layer.parameters()[0]->value.values()[1], 1.0f);
    EXPECT_EQ(layer.parameters()[1]->value.values()[1], 0.0f);
    vary_parameters(layer);
    Tensor input = varied_tensor(shape, 1);
    for (float& value : input.values()) value += 5;
    const Tensor gradient = varied_tensor(shape, 2);
    const auto x = in_double(input.values());
    const auto gamma = in_double(layer.parameters()[0]->value.values());
    const auto beta = in_double(layer.parameters()[1]->value.values());
    expect_close(layer.forward(input.clone(), kTraining).values(),
                 reference::layer_norm(x, gamma, beta, 1e-3f), 1e-5);
    (void)layer.forward(varied_tensor(shape, 9), kInference);  // must not affect backward()
    const auto expected =
        reference::layer_norm_gradients(x, gamma, in_double(gradient.values()), 1e-3f);
    expect_close(layer.backward(gradient.clone(), {}).values(), expected.x, 1e-4);
    expect_close(layer.parameters()[0]->gradient.values(), expected.gamma, 1e-4);
    expect_close(layer.parameters()[1]->gradient.values(), expected.beta, 1e-4);
  }
}

TEST(Embedding, LooksUpTokensAndAddsPositions) {
  Embedding layer({.vocabulary = 5, .width = 3, .positions = 4});
  const auto table = values_of(layer.parameters()[0]->value);
  const auto positions = values_of(layer.parameters()[1]->value);
  const std::vector<std::int32_t> tokens{4, 0, 4, 2, 2, 4};  // token 1 and 3: unused
  const Tensor output = layer.forward(tokens_of({2, 3}, tokens), kTraining);
  ASSERT_EQ(output.shape(), (Shape{2, 3, 3}));
  const Tensor gradient = varied_tensor({2, 3, 3}, 7);
  EXPECT_EQ(layer.backward(gradient.clone(), {}).count(), 0u);
  reference::Values by_token(15), by_position(12);
  for (std::size_t i = 0; i < 18; ++i) {
    const std::size_t row = static_cast<std::size_t>(tokens[i / 3]), column = i % 3;
    EXPECT_EQ(output.values()[i], table[3 * row + column] + positions[i / 3 % 3 * 3 + column]);
    by_token[3 * row + column] += gradient.values()[i];
    by_position[i / 3 % 3 * 3 + column] += gradient.values()[i];
  }
  expect_close(layer.parameters()[0]->gradient.values(), by_token, 1e-6);
  expect_close(layer.parameters()[1]->gradient.values(), by_position, 1e-6);
}

TEST(CausalAttention, MatchesReference) {
  constexpr std::size_t kBatch = 3, kPositions = 7, kWidth = 12;
  const AttentionShape shape{kBatch, kPositions, 3, 4};
  CausalAttention layer({.width = kWidth, .heads = 3});
  vary_parameters(layer);
  const auto parameters = layer.parameters();
  const auto values_at = [&](std::size_t i) { return in_double(parameters[i]->value.values()); };
  const InnerProductShape to_qkv{kBatch * kPositions, kWidth, 3 * kWidth};
  const InnerProductShape to_output{kBatch * kPositions, kWidth, kWidth};

  const Tensor input = varied_tensor({kBatch, kPositions, kWidth}, 1);
  const Tensor gradient = varied_tensor({kBatch, kPositions, kWidth}, 2);
  const auto x = in_double(input.values());
  const auto qkv = reference::inner_product(to_qkv, x, values_at(0), values_at(1));
  const auto heads = reference::attention(shape, qkv);
  expect_close(layer.forward(input.clone(), kTraining).values(),
               reference::inner_product(to_output, heads, values_at(2), values_at(3)), 1e-4);

  const auto at_output = reference::inner_product_gradients(to_output, heads, values_at(2),
                                                            in_double(gradient.values()));
  const auto at_qkv = reference::inner_product_gradients(
      to_qkv, x, values_at(0), reference::attention_gradient(shape, qkv, at_output.input));
  std::vector<std::string> ready;
  const Tensor back =
      layer.backward(gradient.clone(), [&](const Parameter& p) { ready.push_back(p.name); });
  EXPECT_EQ(ready,
            (std::vector<std::string>{"output.weight", "output.bias", "qkv.weight", "qkv.bias"}));
  expect_close(back.values(), at_qkv.input, 1e-4);
  expect_close(parameters[0]->gradient.values(), at_qkv.weights, 1e-4);
  expect_close(parameters[1]->gradient.values(), at_qkv.bias, 1e-4);
  expect_close(parameters[2]->gradient.values(), at_output.weights, 1e-4);
  expect_close(parameters[3]->gradient.values(), at_output.bias, 1e-4);
}

TEST(CausalAttention, IgnoresLaterPositions) {
  CausalAttention layer({.width = 8, .heads = 2});
  vary_parameters(layer);
  Tensor input = varied_tensor({1, 6, 8}, 1);
  const auto before = values_of(layer.forward(input.clone(), kInference));
  for (float& value : input.values().subspan(4 * 8)) value += 1;  // positions 4 and 5
  const auto after = values_of(layer.forward(input.clone(), kInference));
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(after[i], before[i]) << i;
  for (std::size_t i = 32; i < 48; ++i) EXPECT_NE(after[i], before[i]) << i;
}

TEST(Residual, AddsTheInputAndBothGradients) {
  Sequential branch;
  branch.add("fc", Linear({.in_features = 3, .out_features = 3, .bias = false}));
  Residual layer(std::move(branch));
  ASSERT_EQ(layer.parameters()[0]->name, "fc.weight");
  assign(layer.parameters()[0]->value, {2, 0, 0, 0, 0, 1, 0, 3, 0});
  const Tensor output = layer.forward(tensor_of({1, 3}, {1, 10, 100}), kTraining);
  EXPECT_EQ(values_of(output), (std::vector<float>{3, 110, 130}));
  const Tensor back = layer.backward(tensor_of({1, 3}, {1, 2, 4}), {});
  EXPECT_EQ(values_of(back), (std::vector<float>{3, 14, 6}));
}

TEST(SequenceLayers, NameWrongInputs) {
  const auto error_of = [](Layer& layer, Tensor input) {
    return message_of<InvalidArgument>([&] { (void)layer.forward(std::move(input), kTraining); });
  };
  LayerNorm norm({.features = 4});
  EXPECT_EQ(error_of(norm, Tensor::zeros({2, 5})),
            "LayerNorm: input has shape [2, 5]; expected [batch, ..., 4]");
  Embedding embedding({.vocabulary = 6, .width = 2, .positions = 3});
  EXPECT_EQ(error_of(embedding, tokens_of({1, 4}, {0, 1, 2, 3})),
            "Embedding: input has shape [1, 4]; expected tokens [batch, ..., at most 3 positions]");
  EXPECT_EQ(error_of(embedding, Tensor::zeros({1, 3})),
            "Embedding: input has type float32; expected tokens of type int32");
  EXPECT_EQ(error_of(embedding, tokens_of({1, 2}, {5, 6})),
            "embedding: position 1 of the batch has token 6; expected 0 to 5");
  EXPECT_EQ(error_of(embedding, tokens_of({1, 2}, {-1, 3})),
            "embedding: position 0 of the batch has token -1; expected 0 to 5");
  CausalAttention attention({.width = 4, .heads = 2});
  EXPECT_EQ(error_of(attention, Tensor::zeros({2, 4})),
            "CausalAttention: input has shape [2, 4]; expected [batch, positions, 4]");
  EXPECT_EQ(message_of<InvalidArgument>([] { CausalAttention({.width = 10, .heads = 4}); }),
            "CausalAttention: width 10, 4 heads; the width must be a multiple of the number of "
            "heads");
  Sequential branch;
  branch.add("fc", Linear({.in_features = 3, .out_features = 2}));
  Residual residual(std::move(branch));
  EXPECT_EQ(error_of(residual, Tensor::zeros({2, 3})),
            "Residual: the branch has the output shape [2, 2] for an input of shape [2, 3]; "
            "expected the same shape");
}

}  // namespace
}  // namespace horo::ops

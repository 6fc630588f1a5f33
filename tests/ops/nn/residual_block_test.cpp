// Compares whole blocks with the same expression in double precision and with its numerical
// gradient.
#include "ops/nn/models/residual_block.h"

#include <map>

#include "horo/base/error.h"
#include "tests/ops/support/passes.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/ops/support/test_values.h"
#include "tests/support/reference_kernels/batch_norm.h"
#include "tests/support/reference_kernels/convolution.h"

namespace horo::ops {
namespace {

using reference::Values;

constexpr double kEpsilon = 1e-5;

std::vector<std::string> names_of(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> names;
  for (const Parameter* parameter : parameters) names.push_back(parameter->name);
  return names;
}

/// The block's parameters by name, and its input as "input".
using Arguments = std::map<std::string, Values>;

Values normalised(const ImageBatch& images, const Values& values, const Arguments& arguments,
                  const std::string& name) {
  return reference::batch_norm(images, values, arguments.at(name + ".weight"),
                               arguments.at(name + ".bias"),
                               reference::channel_statistics(images, values), kEpsilon);
}

void rectify(Values& values) {
  for (double& value : values) value = std::max(0.0, value);
}

Values reference_block(const ImageBatch& images, const ResidualBlockOptions& options,
                       const Arguments& arguments) {
  const std::size_t channels = options.out_channels, bottleneck = options.bottleneck;
  std::vector<std::pair<std::size_t, Window>> stages{{channels, {3, options.stride, 1}},
                                                     {channels, {3, 1, 1}}};
  if (bottleneck > 0)
    stages = {{bottleneck, {1, 1, 0}}, {bottleneck, {3, options.stride, 1}}, {channels, {1, 1, 0}}};
  const Values& input = arguments.at("input");
  Values values = input;
  ImageBatch inner = images;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const ConvolutionShape shape{inner, stages[i].first, stages[i].second, false};
    if (i > 0) rectify(values);
    values = reference::convolution(shape, values, arguments.at("conv" + number + ".weight"), {});
    inner = shape.output();
    values = normalised(inner, values, arguments, "norm" + number);
  }
  Values shortcut = input;
  if (arguments.contains("shortcut_conv.weight")) {
    const ConvolutionShape projection{images, options.out_channels, {1, options.stride, 0}, false};
    shortcut = reference::convolution(projection, input, arguments.at("shortcut_conv.weight"), {});
    shortcut = normalised(inner, shortcut, arguments, "shortcut_norm");
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += shortcut[i];
  rectify(values);
  return values;
}

void expect_matches_reference(const ResidualBlockOptions& options, const ImageBatch& images) {
  ResidualBlock block(options);
  vary_parameters(block);
  const Shape shape{images.batch, images.channels, images.height, images.width};
  const Tensor input = varied_tensor(shape, 1);
  Arguments arguments{{"input", in_double(input.values())}};
  for (const Parameter* parameter : block.parameters())
    arguments[parameter->name] = in_double(parameter->value.values());
  const Tensor output = block.forward(input.clone(), kTraining);
  expect_close(output.values(), reference_block(images, options, arguments), 1e-4);

  const Tensor weighting = varied_tensor(output.shape(), 2);
  const Tensor input_gradient = block.backward(weighting.clone(), {});
  Arguments gradients{{"input", in_double(input_gradient.values())}};
  for (const Parameter* parameter : block.parameters())
    gradients[parameter->name] = in_double(parameter->gradient.values());
  const auto objective = [&] {
    const Values result = reference_block(images, options, arguments);
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i)
      sum += result[i] * static_cast<double>(weighting.values()[i]);
    return sum;
  };
  for (auto& [name, values] : arguments) {
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 25) {
      constexpr double kStep = 1e-6;
      EXPECT_NEAR(central_difference(objective, values[i], kStep), gradients.at(name)[i], 2e-3)
          << name << " at " << i;
    }
  }
}

TEST(ResidualBlock, MatchesReferenceWithIdentityShortcut) {
  expect_matches_reference({.in_channels = 4, .out_channels = 4}, {3, 4, 5, 6});
}

TEST(ResidualBlock, MatchesReferenceWithAProjection) {
  expect_matches_reference({.in_channels = 3, .out_channels = 5, .stride = 2}, {4, 3, 7, 6});
  expect_matches_reference({.in_channels = 2, .out_channels = 3}, {3, 2, 4, 5});
  expect_matches_reference({.in_channels = 3, .out_channels = 3, .stride = 2}, {3, 3, 5, 5});
}

TEST(ResidualBlock, MatchesReferenceWithABottleneck) {
  expect_matches_reference({.in_channels = 4, .out_channels = 4, .bottleneck = 3}, {3, 4, 5, 6});
  expect_matches_reference({.in_channels = 3, .out_channels = 5, .stride = 2, .bottleneck = 2},
                           {4, 3, 7, 6});
}

TEST(ResidualBlock, NamesItsParametersAndReportsEachOnce) {
  ResidualBlock plain({.in_channels = 4, .out_channels = 4});
  EXPECT_EQ(names_of(plain.parameters()),
            (std::vector<std::string>{"conv1.weight", "norm1.weight", "norm1.bias", "conv2.weight",
                                      "norm2.weight", "norm2.bias"}));
  EXPECT_EQ(plain.buffers().size(), 4u);
  ResidualBlock block({.in_channels = 2, .out_channels = 4, .stride = 2});
  EXPECT_EQ(block.parameters().size(), 9u);
  EXPECT_EQ(names_of(block.buffers()).back(), "shortcut_norm.running_variance");
  (void)block.forward(varied_tensor({2, 2, 6, 6}, 1), kTraining);
  std::vector<std::string> reported;
  (void)block.backward(varied_tensor({2, 4, 3, 3}, 2),
                       [&](const Parameter& parameter) { reported.push_back(parameter.name); });
  auto expected = names_of(block.parameters());
  std::ranges::sort(expected);
  std::ranges::sort(reported);
  EXPECT_EQ(reported, expected);
}

TEST(ResidualBlock, BackwardNeedsATrainingForward) {
  ResidualBlock block({.in_channels = 2, .out_channels = 2});
  (void)block.forward(varied_tensor({2, 2, 4, 4}, 1), {});
  EXPECT_THROW((void)block.backward(varied_tensor({2, 2, 4, 4}, 2), {}), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops

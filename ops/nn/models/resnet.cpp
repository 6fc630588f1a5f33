#include "ops/nn/models/resnet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>

#include "horo/base/error.h"
#include "ops/nn/initialise.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/global_average_pool.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/max_pool2d.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/residual_block.h"

namespace horo::ops {

namespace {

std::vector<std::size_t> blocks_of(const ResnetOptions& options) {
  if (options.stage_blocks.empty())
    return std::vector<std::size_t>(options.channels.size(), options.blocks);
  return options.stage_blocks;
}

void add_stem(Sequential& network, const ResnetOptions& options) {
  const std::size_t channels = options.channels.front();
  const bool is_large = options.has_large_images;
  network.add("conv", Conv2d({.in_channels = options.in_channels,
                              .out_channels = channels,
                              .kernel = is_large ? 7u : 3u,
                              .stride = is_large ? 2u : 1u,
                              .padding = is_large ? 3u : 1u,
                              .bias = false,
                              .input_gradient = false}));
  network.add("norm", BatchNorm({.channels = channels}));
  network.add("relu", Relu());
  if (is_large) network.add("stem_pool", MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));
}

}  // namespace

std::unique_ptr<Sequential> make_resnet(const ResnetOptions& options) {
  const std::vector<std::size_t> blocks = blocks_of(options);
  HORO_CHECK(
      !options.channels.empty() && std::ranges::count(blocks, 0u) == 0,
      fmt::format("make_resnet: {} stages, {} blocks per stage; each must be at least 1",
                  options.channels.size(),
                  options.stage_blocks.empty() ? fmt::format("{}", options.blocks)
                                               : fmt::format("{}", fmt::join(blocks, ", "))));
  HORO_CHECK(blocks.size() == options.channels.size(),
             fmt::format("make_resnet: {} stages, but stage_blocks has {}; give one for each stage",
                         options.channels.size(), blocks.size()));
  auto network = std::make_unique<Sequential>();
  add_stem(*network, options);
  std::size_t channels = options.channels.front();
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::size_t inner = options.channels[stage];
    const std::size_t out_channels = options.has_bottlenecks ? 4 * inner : inner;
    for (std::size_t block = 0; block < blocks[stage]; ++block) {
      // The first block of every stage except the first one halves height and width.
      const bool is_smaller = stage > 0 && block == 0;
      network->add(fmt::format("stage{}_block{}", stage + 1, block + 1),
                   ResidualBlock({.in_channels = channels,
                                  .out_channels = out_channels,
                                  .stride = is_smaller ? 2u : 1u,
                                  .bottleneck = options.has_bottlenecks ? inner : 0}));
      channels = out_channels;
    }
  }
  network->add("pool", GlobalAveragePool());
  network->add("output", Linear({.in_features = channels, .out_features = options.classes}));
  // The gain sqrt(2) compensates for ReLU, which sets about half of the values to zero.
  initialise(*network, options.seed, std::numbers::sqrt2);
  return network;
}

std::unique_ptr<Sequential> make_resnet20(std::uint64_t seed) {
  return make_resnet({.seed = seed});
}

std::unique_ptr<Sequential> make_resnet18(std::uint64_t seed) {
  return make_resnet({.channels = {64, 128, 256, 512}, .blocks = 2, .seed = seed});
}

std::unique_ptr<Sequential> make_resnet50(std::uint64_t seed) {
  return make_resnet({.channels = {64, 128, 256, 512},
                      .stage_blocks = {3, 4, 6, 3},
                      .has_bottlenecks = true,
                      .seed = seed});
}

}  // namespace horo::ops

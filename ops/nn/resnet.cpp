#include "ops/nn/resnet.h"

#include <fmt/format.h>

#include <numbers>

#include "horo/base/error.h"
#include "ops/nn/batch_norm.h"
#include "ops/nn/conv2d.h"
#include "ops/nn/global_average_pool.h"
#include "ops/nn/initialise.h"
#include "ops/nn/linear.h"
#include "ops/nn/relu.h"
#include "ops/nn/residual_block.h"

namespace horo::ops {

std::unique_ptr<Sequential> make_resnet(const ResnetOptions& options) {
  HORO_CHECK(!options.channels.empty() && options.blocks > 0,
             fmt::format("make_resnet: {} stages, {} blocks per stage; each must be at least 1",
                         options.channels.size(), options.blocks));
  auto network = std::make_unique<Sequential>();
  std::size_t channels = options.channels.front();
  network->add("conv", Conv2d({.in_channels = options.in_channels,
                               .out_channels = channels,
                               .padding = 1,
                               .bias = false,
                               .input_gradient = false}));
  network->add("norm", BatchNorm({.channels = channels}));
  network->add("relu", Relu());
  for (std::size_t stage = 0; stage < options.channels.size(); ++stage) {
    for (std::size_t block = 0; block < options.blocks; ++block) {
      // The first block of every stage except the first one halves height and width.
      const bool is_smaller = stage > 0 && block == 0;
      network->add(fmt::format("stage{}_block{}", stage + 1, block + 1),
                   ResidualBlock({.in_channels = channels,
                                  .out_channels = options.channels[stage],
                                  .stride = is_smaller ? 2u : 1u}));
      channels = options.channels[stage];
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

}  // namespace horo::ops

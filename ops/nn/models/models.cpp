#include "ops/nn/models/models.h"

#include <fmt/format.h>

#include <iterator>
#include <numbers>
#include <string>

#include "horo/base/error.h"
#include "ops/backend/shapes.h"
#include "ops/nn/initialise.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/dropout.h"
#include "ops/nn/layers/flatten.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/max_pool2d.h"
#include "ops/nn/layers/relu.h"

namespace horo::ops {
namespace {

/// Appends flatten, the hidden layers and the output. The first layer of a network needs no
/// gradient by its input, which saves a matrix product per step. A layer before a BatchNorm has no
/// bias, because the normalisation subtracts the mean and would cancel it.
void add_fully_connected(Sequential& network, std::size_t features, const MlpOptions& options) {
  bool is_first = network.size() == 0;
  network.add("flatten", Flatten());
  std::size_t stage = 0;
  for (const std::size_t hidden : options.hidden) {
    const std::string number = std::to_string(++stage);
    network.add("fc" + number, Linear({.in_features = features,
                                       .out_features = hidden,
                                       .bias = !options.batch_norm,
                                       .input_gradient = !is_first}));
    if (options.batch_norm) network.add("norm" + number, BatchNorm({.channels = hidden}));
    network.add("relu" + number, Relu());
    if (options.dropout > 0) {
      network.add("dropout" + number, Dropout({.probability = options.dropout}));
    }
    features = hidden;
    is_first = false;
  }
  network.add("output", Linear({.in_features = features,
                                .out_features = options.classes,
                                .input_gradient = !is_first}));
}

/// Returns the shape of one image after a convolution stage: a convolution with stride 1, then
/// pooling 2 x 2. An extent is 0 if one of the two windows does not fit.
Shape after_stage(const Shape& image, std::size_t out_channels, const CnnOptions& options) {
  const Window window{options.kernel, 1, options.padding};
  const Window pool{2, 2, 0};
  const auto shrink = [&](std::size_t extent) -> std::size_t {
    if (!window.fits(extent)) return 0;
    const std::size_t convolved = window.positions(extent);
    return pool.fits(convolved) ? pool.positions(convolved) : 0;
  };
  return {out_channels, shrink(image[1]), shrink(image[2])};
}

}  // namespace

std::unique_ptr<Sequential> make_mlp(const MlpOptions& options) {
  auto network = std::make_unique<Sequential>();
  add_fully_connected(*network, options.input.count(), options);
  initialise(*network, options.seed);
  return network;
}

std::unique_ptr<Sequential> make_cnn(const CnnOptions& options) {
  HORO_CHECK(options.input.rank() == 3,
             fmt::format("make_cnn: input has shape {}; expected [channels, height, width]",
                         options.input.to_string()));
  auto network = std::make_unique<Sequential>();
  Shape image = options.input;
  std::size_t stage = 0;
  for (const std::size_t channels : options.channels) {
    const std::string number = std::to_string(++stage);
    const Shape next = after_stage(image, channels, options);
    HORO_CHECK(next.count() > 0,
               fmt::format("make_cnn: input {} is too small for {} stages of a {} x {} kernel with "
                           "padding {}; the image before stage {} is {}",
                           options.input.to_string(), options.channels.size(), options.kernel,
                           options.kernel, options.padding, stage, image.to_string()));
    network->add("conv" + number, Conv2d({.in_channels = image[0],
                                          .out_channels = channels,
                                          .kernel = options.kernel,
                                          .padding = options.padding,
                                          .bias = !options.batch_norm,
                                          .input_gradient = stage > 1}));
    network->add("pool" + number, MaxPool2d());
    if (options.batch_norm) {
      network->add("conv_norm" + number, BatchNorm({.channels = channels}));
    }
    network->add("conv_relu" + number, Relu());
    image = next;
  }
  add_fully_connected(*network, image.count(),
                      {.hidden = options.hidden,
                       .classes = options.classes,
                       .batch_norm = options.batch_norm,
                       .dropout = options.dropout});
  initialise(*network, options.seed);
  return network;
}

// The gain sqrt(2) compensates for ReLU, which sets about half of the values to zero.
std::unique_ptr<Sequential> make_vgg11(const Vgg11Options& options) {
  constexpr std::size_t kChannels[] = {64, 128, 256, 256, 512, 512, 512, 512};
  constexpr bool kHasPool[] = {true, true, false, true, false, true, false, true};
  const Shape& input = options.input;
  HORO_CHECK(
      input.rank() == 3 && input[1] >= 32 && input[2] >= 32,
      fmt::format("make_vgg11: input {}; expected channels, height and width, of at least 32 "
                  "x 32 pixels",
                  input.to_string()));
  auto network = std::make_unique<Sequential>();
  std::size_t channels = input[0];
  for (std::size_t i = 0; i < std::size(kChannels); ++i) {
    const std::string number = std::to_string(i + 1);
    network->add("conv" + number, Conv2d({.in_channels = channels,
                                          .out_channels = kChannels[i],
                                          .padding = 1,
                                          .bias = !options.batch_norm,
                                          .input_gradient = i > 0}));
    channels = kChannels[i];
    if (options.batch_norm) network->add("conv_norm" + number, BatchNorm({.channels = channels}));
    network->add("conv_relu" + number, Relu());
    if (kHasPool[i]) network->add("pool" + number, MaxPool2d());
  }
  add_fully_connected(
      *network, channels * (input[1] / 32) * (input[2] / 32),
      {.hidden = options.hidden, .classes = options.classes, .dropout = options.dropout});
  initialise(*network, options.seed, std::numbers::sqrt2);
  return network;
}

}  // namespace horo::ops

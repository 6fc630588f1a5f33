#include "ops/nn/residual_block.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ops/nn/batch_norm.h"
#include "ops/nn/conv2d.h"
#include "ops/nn/stage_walk.h"

namespace horo::ops {
namespace {

void add_in_place(Tensor& sum, const Tensor& term) {
  std::ranges::transform(sum.values(), term.values(), sum.data(), std::plus<>());
}

}  // namespace

ResidualBlock::ResidualBlock(const ResidualBlockOptions& options) {
  const std::size_t channels = options.out_channels;
  residual_
      .add("conv1", Conv2d({.in_channels = options.in_channels,
                            .out_channels = channels,
                            .stride = options.stride,
                            .padding = 1,
                            .bias = false}))
      .add("norm1", BatchNorm({.channels = channels}))
      .add("relu1", Relu())
      .add("conv2",
           Conv2d({.in_channels = channels, .out_channels = channels, .padding = 1, .bias = false}))
      .add("norm2", BatchNorm({.channels = channels}));
  // Without a change of shape, the shortcut is the identity and has no layers.
  if (options.stride == 1 && options.in_channels == channels) return;
  shortcut_
      .add("shortcut_conv", Conv2d({.in_channels = options.in_channels,
                                    .out_channels = channels,
                                    .kernel = 1,
                                    .stride = options.stride,
                                    .bias = false}))
      .add("shortcut_norm", BatchNorm({.channels = channels}));
}

// Layers own their input and may overwrite it, so one of the branches gets a copy.
Tensor ResidualBlock::forward(Tensor input, const Pass& pass) {
  Tensor sum = residual_.forward(input.clone(), pass);
  add_in_place(sum, shortcut_.forward(std::move(input), pass));
  return relu_.forward(std::move(sum), pass);
}

// The sum passes its gradient to both branches unchanged. Both branches read the input, so its
// gradient is the sum of their input gradients.
Tensor ResidualBlock::backward(Tensor output_gradient, const GradientReady& ready) {
  Tensor gradient = relu_.backward(std::move(output_gradient), ready);
  Tensor sum = residual_.backward(gradient.clone(), ready);
  add_in_place(sum, shortcut_.backward(std::move(gradient), ready));
  return sum;
}

std::vector<Parameter*> ResidualBlock::parameters() {
  return joined(residual_.parameters(), shortcut_.parameters());
}

std::vector<Parameter*> ResidualBlock::buffers() {
  return joined(residual_.buffers(), shortcut_.buffers());
}

}  // namespace horo::ops

#include "ops/nn/models/residual_block.h"

#include <utility>

#include "ops/nn/fusion/stage_walk.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/shape_checks.h"

namespace horo::ops {

namespace {

/// A convolution without a bias: a BatchNorm follows.
Conv2d convolution(std::size_t in_channels, std::size_t out_channels, std::size_t kernel,
                   std::size_t stride) {
  return Conv2d({.in_channels = in_channels,
                 .out_channels = out_channels,
                 .kernel = kernel,
                 .stride = stride,
                 .padding = kernel / 2,
                 .bias = false});
}

}  // namespace

ResidualBlock::ResidualBlock(const ResidualBlockOptions& options)
    : norm_name_(options.bottleneck > 0 ? "norm3" : "norm2"),
      norm_({.channels = options.out_channels}) {
  const std::size_t channels = options.out_channels, inner = options.bottleneck;
  if (inner > 0) {
    residual_.add("conv1", convolution(options.in_channels, inner, 1, 1))
        .add("norm1", BatchNorm({.channels = inner}))
        .add("relu1", Relu())
        .add("conv2", convolution(inner, inner, 3, options.stride))
        .add("norm2", BatchNorm({.channels = inner}))
        .add("relu2", Relu())
        .add("conv3", convolution(inner, channels, 1, 1));
  } else {
    residual_.add("conv1", convolution(options.in_channels, channels, 3, options.stride))
        .add("norm1", BatchNorm({.channels = channels}))
        .add("relu1", Relu())
        .add("conv2", convolution(channels, channels, 3, 1));
  }
  for (Parameter* parameter : norm_.parameters())
    parameter->name = norm_name_ + "." + parameter->name;
  for (Parameter* buffer : norm_.buffers()) buffer->name = norm_name_ + "." + buffer->name;
  // Without a change of shape, the shortcut is the identity and has no layers.
  if (options.stride == 1 && options.in_channels == channels) return;
  shortcut_.add("shortcut_conv", convolution(options.in_channels, channels, 1, options.stride))
      .add("shortcut_norm", BatchNorm({.channels = channels}));
}

// Both branches read the same input. A layer overwrites only memory that no other tensor shares.
Tensor ResidualBlock::forward(Tensor input, const Pass& pass) {
  Tensor residual = residual_.forward(input.shared(), pass);
  const Tensor shortcut = shortcut_.forward(std::move(input), pass);
  Tensor output =
      naming(norm_name_, [&] { return norm_.forward_relu(std::move(residual), shortcut, pass); });
  if (pass.training) output_ = output.shared();
  return output;
}

// dx = residual'(g) + shortcut'(g), where g is the gradient by the sum of the branches.
Tensor ResidualBlock::backward(Tensor output_gradient, const GradientReady& ready) {
  BranchGradients by = backward_branches(backward_relu(std::move(output_gradient)), ready);
  return backend().add(std::move(by.residual), by.shortcut);
}

Tensor ResidualBlock::backward_relu(Tensor output_gradient) {
  const Tensor output = std::exchange(output_, Tensor());
  require_gradient(output.count() > 0, "ResidualBlock", output_gradient.shape(), output.shape());
  return backend().relu_backward(std::move(output_gradient), output);
}

// The gradient by the output of this block is the sum of the two gradients of the next block. One
// kernel adds them and applies the derivative of ReLU. Shapes need no check here: the next block
// has computed both gradients.
Tensor ResidualBlock::backward_relu(BranchGradients of_next) {
  const Tensor output = std::exchange(output_, Tensor());
  return backend().add_relu_backward(std::move(of_next.residual), of_next.shortcut, output);
}

ResidualBlock::BranchGradients ResidualBlock::backward_branches(Tensor gradient,
                                                                const GradientReady& ready) {
  BranchGradients by;
  by.residual = residual_.backward(norm_.backward(gradient.shared(), ready), ready);
  by.shortcut = shortcut_.backward(std::move(gradient), ready);
  return by;
}

}  // namespace horo::ops

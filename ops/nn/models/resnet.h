#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/nn/sequential.h"

namespace horo::ops {

/// The options of make_resnet().
struct ResnetOptions {
  std::size_t in_channels = 3;  ///< of the images
  /// Of each stage; every stage but the first halves height and width.
  std::vector<std::size_t> channels{16, 32, 64};
  std::size_t blocks = 3;  ///< residual blocks in each stage; 2 layers each
  /// Blocks of each stage, if they differ; replaces `blocks` unless empty.
  std::vector<std::size_t> stage_blocks{};
  std::size_t classes = 10;  ///< outputs
  /// Blocks of 3 layers: the channels of a stage are those of the inner convolution, and its output
  /// has four times as many.
  bool has_bottlenecks = false;
  /// For images of about 224 x 224: begins with a 7 x 7 convolution of stride 2 and 3 x 3 max
  /// pooling of stride 2.
  bool has_large_images = false;
  std::uint64_t seed = 0;  ///< of the initial weights
};

/// A residual network, from [batch, in_channels, height, width] (any height and width) to logits
/// [batch, classes]: convolution 3 x 3, the stages, global average pooling, a fully connected
/// layer. Layers: "conv", "norm", "relu", for large images "stem_pool", then "stage1_block1" and so
/// on, then "pool" and "output". With 3 stages of n blocks of 2 layers it has 6 n + 2 layers.
/// Source: He, Zhang, Ren, Sun, "Deep residual learning" (2016), section 4.2, with projections in
/// place of zeros where a stage begins.
std::unique_ptr<Sequential> make_resnet(const ResnetOptions& options);

/// The network of 20 layers for CIFAR-10 with 272,474 parameters.
std::unique_ptr<Sequential> make_resnet20(std::uint64_t seed = 0);

/// The network of 18 layers for ImageNet (table 1 of the paper), in the usual variant for CIFAR-10:
/// it begins with a 3 x 3 convolution and has no pooling after it. 4 stages of 2 blocks, 64 to 512
/// channels, 11,173,962 parameters.
std::unique_ptr<Sequential> make_resnet18(std::uint64_t seed = 0);

/// The network of 50 layers for ImageNet, in the same variant: 4 stages of 3, 4, 6 and 3
/// bottlenecks, 256 to 2048 channels, 23,520,842 parameters. The stride is that of the 3 x 3
/// convolution of a bottleneck, as usual, and not of the 1 x 1 convolution before it, as in the
/// paper.
std::unique_ptr<Sequential> make_resnet50(std::uint64_t seed = 0);

}  // namespace horo::ops

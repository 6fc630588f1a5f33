#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/nn/sequential.h"

namespace horo::ops {

/// The options of make_mlp().
struct MlpOptions {
  Shape input{1, 28, 28};                ///< of one sample, any number of dimensions
  std::vector<std::size_t> hidden{128};  ///< features of each hidden stage; may be empty
  std::size_t classes = 10;              ///< outputs
  bool batch_norm = false;               ///< between each hidden stage and its ReLU
  float dropout = 0.0f;                  ///< probability, after each hidden ReLU; 0: none
  std::uint64_t seed = 0;                ///< of the initial weights
};

/// A multi-layer perceptron from [batch, input...] to logits [batch, classes].
/// Layers: "flatten", then per hidden stage "fc1", "norm1", "relu1", "dropout1", then "output".
std::unique_ptr<Sequential> make_mlp(const MlpOptions& options = {});

/// The options of make_cnn().
struct CnnOptions {
  Shape input{1, 28, 28};                     ///< of one image: channels, height, width
  std::vector<std::size_t> channels{16, 32};  ///< out channels of each convolution stage
  std::size_t kernel = 5;                     ///< pixels; every convolution's window
  std::size_t padding = 0;                    ///< of every convolution
  std::vector<std::size_t> hidden{128};       ///< features of the fully connected stages
  std::size_t classes = 10;                   ///< outputs
  bool batch_norm = false;                    ///< after each convolution and each hidden stage
  float dropout = 0.0f;                       ///< probability, after each hidden ReLU; 0: none
  std::uint64_t seed = 0;                     ///< of the initial weights
};

/// A convolutional network from [batch, channels, height, width] to logits [batch, classes]. Each
/// convolution stage halves height and width: convolution, 2 x 2 max pooling, ReLU (the same result
/// as ReLU before pooling, for a quarter of the work). Layers: per convolution stage "conv1",
/// "pool1", "conv_norm1", "conv_relu1", then "flatten", then the layers of make_mlp(). Throws
/// InvalidArgument if the image is too small for the stages.
std::unique_ptr<Sequential> make_cnn(const CnnOptions& options = {});

/// The options of make_vgg11().
struct Vgg11Options {
  Shape input{3, 32, 32};  ///< of one image: channels, height, width
  /// Features of the fully connected stages; {4096, 4096} for ImageNet.
  std::vector<std::size_t> hidden{};
  std::size_t classes = 10;  ///< outputs
  bool batch_norm = true;    ///< after each convolution
  float dropout = 0.0f;      ///< probability, after each hidden ReLU; 0: none
  std::uint64_t seed = 0;    ///< of the initial weights
};

/// The network with 8 convolutions 3 x 3 and 64 to 512 channels, from [batch, channels, height,
/// width] to logits [batch, classes]. Five 2 x 2 max poolings halve height and width, which are at
/// least 32. Layers: "conv1", "conv_norm1", "conv_relu1", "pool1" and so on, then the layers of
/// make_mlp(). Source: Simonyan, Zisserman, "Very deep convolutional networks" (2015),
/// configuration A; without hidden stages in the usual variant for CIFAR-10, with 9,228,362
/// parameters.
std::unique_ptr<Sequential> make_vgg11(const Vgg11Options& options = {});

}  // namespace horo::ops

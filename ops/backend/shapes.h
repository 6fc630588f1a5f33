#pragma once

#include <cstddef>

#include "horo/base/data_type.h"

namespace horo::ops {

/// The memory layout of images and filters. Fields such as `height` have the same meaning in both
/// layouts.
enum class ImageLayout {
  kChannelsFirst,  ///< [batch, channels, height, width], filters [out, in, height, width]
  kChannelsLast,   ///< [batch, height, width, channels], filters [out, height, width, in]
};

struct ImageFormat {
  DataType type = DataType::kFloat32;  ///< or kBFloat16 or kFloat16
  ImageLayout layout = ImageLayout::kChannelsLast;
};

/// A square window that slides over the height and width of an image, as convolution and pooling
/// use it. Sizes in pixels; the same for both directions.
struct Window {
  std::size_t size = 1;
  std::size_t stride = 1;
  /// Rows and columns added on every side. Convolution reads zeros there; pooling ignores them.
  std::size_t padding = 0;

  /// Whether at least one window position fits an image of `extent` pixels.
  bool fits(std::size_t extent) const { return extent + 2 * padding >= size; }
  /// Window positions along an image of `extent` pixels. Requires fits(extent).
  std::size_t positions(std::size_t extent) const {
    return (extent + 2 * padding - size) / stride + 1;
  }
};

/// A batch of images [batch, channels, height, width], row-major.
struct ImageBatch {
  std::size_t batch = 0;
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;

  std::size_t count() const { return batch * channels * height * width; }
};

/// One convolution: input [batch, channels, height, width] and weights
/// [out_channels, channels, size, size] give output [batch, out_channels, out height, out width].
struct ConvolutionShape {
  ImageBatch input;
  std::size_t out_channels = 0;
  Window window;
  bool has_bias = true;

  ImageBatch output() const {
    return {input.batch, out_channels, window.positions(input.height),
            window.positions(input.width)};
  }
  std::size_t weight_count() const {
    return out_channels * input.channels * window.size * window.size;
  }
};

/// One pooling: every channel of the input is reduced window by window.
struct PoolShape {
  ImageBatch input;
  Window window;

  ImageBatch output() const {
    return {input.batch, input.channels, window.positions(input.height),
            window.positions(input.width)};
  }
};

/// One fully connected stage: input [batch, in_features] and weights [out_features, in_features]
/// give output [batch, out_features] = input * weights^T + bias.
struct InnerProductShape {
  std::size_t batch = 0;
  std::size_t in_features = 0;
  std::size_t out_features = 0;
  bool has_bias = true;
};

/// Self-attention over sequences. Queries, keys and values are one array
/// [batch, positions, 3, heads, head_size]; the output is [batch, positions, heads, head_size].
struct AttentionShape {
  std::size_t batch = 0;
  std::size_t positions = 0;
  std::size_t heads = 0;
  std::size_t head_size = 0;

  /// Features of a position of the output.
  std::size_t width() const { return heads * head_size; }
  /// Queries of all heads.
  std::size_t rows() const { return batch * heads * positions; }
};

enum class Activation {
  kRelu,
  kGelu,  ///< the one with tanh
};

/// A fully connected stage with an activation, optionally followed by a second fully connected
/// stage.
struct ActivatedShape {
  InnerProductShape linear;  ///< with a bias
  Activation activation = Activation::kRelu;
  std::size_t next_out_features = 0;  ///< of the second stage; 0: none
};

}  // namespace horo::ops

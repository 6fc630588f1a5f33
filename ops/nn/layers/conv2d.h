#pragma once

#include <cstddef>

#include "ops/backend/shapes.h"
#include "ops/nn/layers/weighted_layer.h"

namespace horo::ops {

/// The options of Conv2d.
struct Conv2dOptions {
  std::size_t in_channels = 0;   ///< required
  std::size_t out_channels = 0;  ///< required
  std::size_t kernel = 3;        ///< pixels; height and width of the window
  std::size_t stride = 1;        ///< pixels between two windows
  std::size_t padding = 0;       ///< rows and columns of zeros on every side
  /// Set to false before a BatchNorm, whose shift replaces the bias.
  bool bias = true;
  /// Set to false for the first layer of a network: backward() then skips this gradient and returns
  /// an empty tensor.
  bool input_gradient = true;
};

/// Returns the shape of the convolution for `input`. Throws InvalidArgument if the shape does not
/// fit.
ConvolutionShape convolution_shape(const Conv2dOptions& options, const Shape& input);

/// Convolution, without flipping the filter, of [batch, in_channels, height, width] to [batch,
/// out_channels, h, w], where h = (height + 2 padding - kernel) / stride + 1, rounded down.
/// Parameters: "weight" [out_channels, in_channels, kernel, kernel] and "bias" [out_channels]. The
/// weight starts as initialise() draws it for seed 0, the bias as zero.
class Conv2d : public WeightedLayer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit Conv2d(const Conv2dOptions& options);
  /// The options of the constructor.
  const Conv2dOptions& options() const { return options_; }

 private:
  Plan make_plan(const Shape& input) const override;

  Conv2dOptions options_;
};

}  // namespace horo::ops

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "ops/nn/layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// What MaxPool2d, AvgPool2d and GlobalAveragePool have in common.
class PoolLayer : public Layer {
 public:
  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;

 protected:
  /// The operation for one input shape.
  struct Plan {
    Shape input;                               ///< of the images
    Shape output;                              ///< of the images
    std::unique_ptr<PoolOperation> operation;  ///< of the backend
  };
  /// `kind`, such as "MaxPool2d", appears in errors.
  explicit PoolLayer(std::string kind) : kind_(std::move(kind)) {}
  /// Throws InvalidArgument if the shape does not fit.
  virtual Plan make_plan(const Shape& input) const = 0;
  void on_move() override;
  /// The name for errors.
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
  ShapeCache<Plan> plans_;
  // of the latest training forward:
  std::shared_ptr<Plan> plan_;
  Tensor input_, output_;  // empty if the operation does not read them again
};

/// The options of MaxPool2d and AvgPool2d.
struct Pool2dOptions {
  std::size_t kernel = 2;   ///< pixels; height and width of the window
  std::size_t stride = 0;   ///< 0: the same as kernel
  std::size_t padding = 0;  ///< at most kernel / 2; padded pixels do not count
};

/// Pooling by windows: [batch, channels, height, width] to [batch, channels, h, w], where h =
/// (height + 2 padding - kernel) / stride + 1, rounded down.
class WindowPool : public PoolLayer {
 public:
  /// The options of the constructor.
  const Pool2dOptions& options() const { return options_; }

 protected:
  /// The function of a backend that makes the operation.
  using MakeOperation = std::unique_ptr<PoolOperation> (Operations::*)(const PoolShape&,
                                                                       const ImageFormat&);
  /// Throws InvalidArgument for options out of range.
  WindowPool(std::string kind, MakeOperation make, const Pool2dOptions& options);

 private:
  Plan make_plan(const Shape& input) const override;

  MakeOperation make_;
  Pool2dOptions options_;
};

}  // namespace horo::ops

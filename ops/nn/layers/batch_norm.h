#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/backend/shapes.h"
#include "ops/nn/layer.h"
#include "ops/nn/shape_cache.h"

namespace horo::ops {

/// The options of BatchNorm.
struct BatchNormOptions {
  std::size_t channels = 0;  ///< required
  float epsilon = 1e-5f;     ///< added to the variance before the square root
  /// Share of the batch in the running statistics: new = (1 - momentum) * old + momentum * batch.
  float momentum = 0.1f;
};

/// Returns the images that a BatchNorm normalises. An input [batch, channels] is treated as images
/// of one pixel. Throws InvalidArgument if `input` has another shape, or too few values for
/// training.
ImageBatch normalised_images(const BatchNormOptions& options, const Shape& input, bool training);

/// Replaces the float64 `values`, in the memory of the backend, by their sums over the ranks,
/// before later work on the stream of the backend reads them. `name` is the same on all ranks.
using SumOverRanks = std::function<void(const std::string& name, Tensor& values)>;

/// Normalises every channel of [batch, channels] or [batch, channels, height, width] to mean 0 and
/// variance 1, then scales by "weight" and shifts by "bias". Training uses the statistics of the
/// batch of this rank (at least two values per channel), which also update the running statistics.
/// Inference uses the running statistics. Source: Ioffe, Szegedy, "Batch normalization" (2015).
/// Parameters: "weight" (starts as 1), "bias" (0). Buffers: "running_mean" (0), "running_variance"
/// (1; unbiased, divided by the number of values - 1). All
/// [channels] and float32 for every type of the backend.
class BatchNorm : public Layer {
 public:
  /// Throws InvalidArgument for options out of range.
  explicit BatchNorm(const BatchNormOptions& options);

  Tensor forward(Tensor input, const Pass& pass) override;
  Tensor backward(Tensor output_gradient, const GradientReady& ready) override;
  /// relu(forward(input) + addend), as one kernel if the backend has it. `addend` has the shape of
  /// the input; empty: none. backward() takes the gradient by the argument of the ReLU.
  Tensor forward_relu(Tensor input, const Tensor& addend, const Pass& pass);
  /// The backward pass of a forward_relu() without an addend, whose result was `output`.
  Tensor backward_relu(Tensor output_gradient, const Tensor& output, const GradientReady& ready);
  std::vector<Parameter*> parameters() override { return {&weight_, &bias_}; }
  /// Their gradients are empty tensors.
  std::vector<Parameter*> buffers() override { return {&running_mean_, &running_variance_}; }
  /// The options of the constructor.
  const BatchNormOptions& options() const { return options_; }

  /// Uses the statistics of all ranks in training, by sum and count, instead of those of this rank.
  /// Ranks may have different numbers of samples. Passes are then collective; each calls `sum`
  /// once. The gradients of the parameters stay those of this rank. Empty: this rank alone. Source:
  /// Peng et al., "MegDet" (2018).
  void set_sum_over_ranks(SumOverRanks sum) { sum_over_ranks_ = std::move(sum); }

 private:
  void on_move() override;
  /// forward_relu() with `has_relu`, otherwise forward().
  Tensor normalise(Tensor input, const Tensor& addend, bool has_relu, const Pass& pass);
  /// `output`: the result of forward_relu(); empty: `output_gradient` is by the normalised values.
  Tensor backward_through(Tensor output_gradient, const Tensor& output, const GradientReady& ready);
  /// Normalises with the statistics of all ranks.
  void forward_over_ranks(BatchNormOperation& operation, const ImageBatch& images,
                          const BatchNormTraining& arrays);
  /// Adds to the gradient by the input what the statistics of all ranks contribute.
  Tensor corrected(BatchNormOperation& operation, const Tensor& input, Tensor input_gradient);

  BatchNormOptions options_;
  Parameter weight_;
  Parameter bias_;
  Parameter running_mean_;
  Parameter running_variance_;
  ShapeCache<BatchNormOperation> operations_;
  SumOverRanks sum_over_ranks_;
  // of the latest training forward:
  std::shared_ptr<BatchNormOperation> operation_;
  Tensor input_;
  Tensor mean_;
  Tensor deviation_;  // see BatchNormTraining::inverse_deviation
  // with sum_over_ranks_:
  Tensor sums_;      // of moments_to_sums()
  Tensor variance_;  // [channels]
};

}  // namespace horo::ops

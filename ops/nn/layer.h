#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace horo::ops {

/// A trainable tensor and the gradient that backward computes for it (same shape).
struct Parameter {
  std::string name;
  Tensor value;
  Tensor gradient;
};

/// Mode and random seed of a forward pass. Random choices (dropout) depend only on the seed, the
/// step and the global index of the sample. They do not depend on the number of ranks.
struct Pass {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  /// Global index of each sample of the batch; length: the batch's first dimension. May be empty
  /// when not training.
  std::span<const std::uint64_t> samples;
};

/// Called with each parameter when its gradient is final for this step.
using GradientReady = std::function<void(const Parameter&)>;

/// One differentiable stage of a network. The first dimension of inputs and outputs is the batch.
/// forward() stores what backward() needs; backward() uses the latest training forward(). Used from
/// one thread at a time.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Tensor forward(Tensor input, const Pass& pass) = 0;
  /// Takes the gradient of the loss with respect to the output. Overwrites the gradients of the
  /// parameters, calls `ready` for each, and returns the gradient with respect to the input.
  virtual Tensor backward(Tensor output_gradient, const GradientReady& ready) = 0;
  /// In forward order. The pointers stay valid for the lifetime of the layer.
  virtual std::vector<Parameter*> parameters() { return {}; }
  /// State of the model that is not trained (running statistics), in forward order.
  virtual std::vector<Parameter*> buffers() { return {}; }
};

}  // namespace horo::ops

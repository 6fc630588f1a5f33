#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/tensor/tensor.h"

namespace horo::ops {

/// The result of comparing a classifier's logits with the true classes.
struct CrossEntropyLoss {
  /// Sum over the batch of -log softmax(logits)[label], divided by the normaliser.
  double value = 0;
  /// Samples whose label has the largest logit.
  std::size_t correct = 0;
  /// Gradient of the value with respect to the logits, [batch, classes]; empty for
  /// cross_entropy_score().
  Tensor gradient;
};

/// Softmax and cross-entropy of `logits` [batch, classes] and one label in [0, classes) per sample.
/// `normaliser` is the number of samples of the mean: the batch size, or global batch / ranks if
/// ranks have batches of different sizes and gradients are averaged. The gradient reuses the memory
/// of the logits. Throws InvalidArgument if the shapes do not match, or if a label is out of range;
/// the text then names the sample.
CrossEntropyLoss cross_entropy_loss(Tensor logits, std::span<const std::int32_t> labels,
                                    double normaliser);
/// The same without the gradient, for evaluation.
CrossEntropyLoss cross_entropy_score(const Tensor& logits, std::span<const std::int32_t> labels,
                                     double normaliser);

}  // namespace horo::ops

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
  /// Samples whose largest logit is that of their label.
  std::size_t correct = 0;
  /// Of the value by the logits; [batch, classes]. Empty if it was not asked for.
  Tensor gradient;
};

/// Softmax and cross-entropy of `logits` [batch, classes] and one label in [0, classes) per sample.
/// `normaliser` is the number of samples that the mean is over: the batch's size, or, where ranks
/// hold batches of different sizes and gradients are averaged, global batch / ranks. The gradient
/// takes over the logits' memory. Throws InvalidArgument that names the sample for a label out of
/// range, and for shapes that do not fit.
CrossEntropyLoss cross_entropy_loss(Tensor logits, std::span<const std::int32_t> labels,
                                    double normaliser);
/// The same without the gradient, for evaluation.
CrossEntropyLoss cross_entropy_score(const Tensor& logits, std::span<const std::int32_t> labels,
                                     double normaliser);

}  // namespace horo::ops

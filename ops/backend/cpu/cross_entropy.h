#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace horo::ops::cpu {

/// Loss and accuracy of one batch.
struct BatchScore {
  /// Sum over the samples of -log softmax(logits)[label], divided by the normaliser.
  double loss = 0;
  /// Samples whose label has the largest logit; of equal logits the first counts.
  std::size_t correct = 0;
};

/// Softmax and cross-entropy in one pass over `logits` [labels.size(), classes], row-major. Writes
/// the gradient of the loss by the logits, (softmax - one_hot(label)) / normaliser, to `gradient`
/// (same size; may be the same array; empty: not computed). Stable for logits of any finite size.
/// Throws InvalidArgument if a label is not in [0, classes), before anything is written.
BatchScore softmax_cross_entropy(std::span<const float> logits,
                                 std::span<const std::int32_t> labels, std::size_t classes,
                                 double normaliser, std::span<float> gradient);

}  // namespace horo::ops::cpu

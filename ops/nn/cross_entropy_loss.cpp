#include "ops/nn/cross_entropy_loss.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "ops/backend/cpu/cross_entropy.h"

namespace horo::ops {
namespace {

CrossEntropyLoss compare(const Tensor& logits, std::span<const std::int32_t> labels,
                         double normaliser, std::span<float> gradient) {
  const Shape& shape = logits.shape();
  HORO_CHECK(
      shape.rank() == 2 && shape.count() > 0 && shape[0] == labels.size(),
      fmt::format("cross-entropy: logits have shape {}; expected [{}, classes] for {} labels",
                  shape.to_string(), labels.size(), labels.size()));
  // The comparison also rejects NaN.
  HORO_CHECK(normaliser > 0,
             fmt::format("cross-entropy: normaliser is {}; must be above 0", normaliser));
  const cpu::BatchScore score =
      cpu::softmax_cross_entropy(logits.values(), labels, shape[1], normaliser, gradient);
  return {score.loss, score.correct, Tensor()};
}

}  // namespace

CrossEntropyLoss cross_entropy_loss(Tensor logits, std::span<const std::int32_t> labels,
                                    double normaliser) {
  // The gradient overwrites the logits, which this function owns, so no second array of that size
  // is allocated.
  CrossEntropyLoss loss = compare(logits, labels, normaliser, logits.values());
  loss.gradient = std::move(logits);
  return loss;
}

// The kernel skips the gradient if its span is empty.
CrossEntropyLoss cross_entropy_score(const Tensor& logits, std::span<const std::int32_t> labels,
                                     double normaliser) {
  return compare(logits, labels, normaliser, {});
}

}  // namespace horo::ops

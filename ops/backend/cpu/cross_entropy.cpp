#include "ops/backend/cpu/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "horo/base/error.h"

namespace horo::ops::cpu {
namespace {

void check_labels(std::span<const std::int32_t> labels, std::size_t classes) {
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    const std::int32_t label = labels[sample];
    HORO_CHECK(label >= 0 && static_cast<std::size_t>(label) < classes,
               fmt::format("cross-entropy: sample {} of the batch has label {}; expected 0 to {}",
                           sample, label, classes - 1));
  }
}

}  // namespace

// Subtracts the largest logit first, so that no exponential overflows. The sums are in double: the
// loss must agree closely between runs with different numbers of ranks, which split the batch
// differently. `gradient` may be the memory of `logits`: a row is read completely before it is
// overwritten.
BatchScore softmax_cross_entropy(std::span<const float> logits,
                                 std::span<const std::int32_t> labels, std::size_t classes,
                                 double normaliser, std::span<float> gradient) {
  // All labels are checked before the first write, so that a bad label leaves `gradient` unchanged.
  check_labels(labels, classes);
  BatchScore score;
  std::vector<double> exponentials(classes);
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    const auto row = logits.subspan(sample * classes, classes);
    const auto label = static_cast<std::size_t>(labels[sample]);
    const auto largest = std::max_element(row.begin(), row.end());
    const double shift = *largest;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += exponentials[c] = std::exp(row[c] - shift);
    score.loss += std::log(sum) - (row[label] - shift);
    if (static_cast<std::size_t>(largest - row.begin()) == label) ++score.correct;
    if (gradient.empty()) continue;
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = c == label ? 1.0 : 0.0;
      gradient[sample * classes + c] =
          static_cast<float>((exponentials[c] / sum - target) / normaliser);
    }
  }
  score.loss /= normaliser;
  return score;
}

}  // namespace horo::ops::cpu

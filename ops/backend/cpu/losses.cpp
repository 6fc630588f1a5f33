#include "ops/backend/cpu/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "horo/base/error.h"

namespace horo::ops::cpu {
namespace {

void check_targets(std::span<const std::int32_t> targets, std::size_t classes,
                   const CrossEntropyOptions& options) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int32_t target = targets[i];
    HORO_CHECK(
        (target >= 0 && static_cast<std::size_t>(target) < classes) || options.ignored == target,
        fmt::format("cross-entropy: sample {} of the batch has label {}; expected 0 to {}", i,
                    target, classes - 1));
  }
}

}  // namespace

// Subtracts the largest logit first, so that no exponential overflows. The sums are in double: the
// loss must agree closely between runs with different numbers of ranks, which split the batch
// differently. `gradient` may be the memory of `logits`: a row is read completely before it is
// overwritten.
BatchScore softmax_cross_entropy(std::span<const float> logits,
                                 std::span<const std::int32_t> targets, std::size_t classes,
                                 double normaliser, std::span<float> gradient,
                                 const CrossEntropyOptions& options) {
  // All targets are checked before the first write, so that a bad one leaves `gradient` unchanged.
  check_targets(targets, classes, options);
  const double smoothing = static_cast<double>(options.label_smoothing);
  const double share = smoothing / static_cast<double>(classes);
  BatchScore score;
  std::vector<double> exponentials(classes);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (options.ignored == targets[i]) {
      if (!gradient.empty()) std::ranges::fill(gradient.subspan(i * classes, classes), 0.0f);
      continue;
    }
    const auto row = logits.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(targets[i]);
    const auto largest = std::max_element(row.begin(), row.end());
    const double shift = *largest;
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += exponentials[c] = std::exp(row[c] - shift);
    score.loss += std::log(sum) - (1 - smoothing) * (row[label] - shift);
    if (smoothing > 0)
      score.loss -=
          share * std::accumulate(row.begin(), row.end(), -shift * static_cast<double>(classes));
    ++score.counted;
    if (static_cast<std::size_t>(largest - row.begin()) == label) ++score.correct;
    if (gradient.empty()) continue;
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = c == label ? 1 - smoothing + share : share;
      gradient[i * classes + c] = static_cast<float>((exponentials[c] / sum - target) / normaliser);
    }
  }
  score.loss /= normaliser;
  return score;
}

BatchScore squared_error(std::span<const float> output, std::span<const float> targets,
                         double normaliser, std::span<float> gradient) {
  BatchScore score{.counted = output.size()};
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double difference = static_cast<double>(output[i]) - static_cast<double>(targets[i]);
    score.loss += difference * difference;
    if (!gradient.empty()) gradient[i] = static_cast<float>(2 * difference / normaliser);
  }
  score.loss /= normaliser;
  return score;
}

}  // namespace horo::ops::cpu

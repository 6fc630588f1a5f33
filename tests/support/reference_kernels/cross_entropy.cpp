#include "tests/support/reference_kernels/cross_entropy.h"

#include <cmath>

namespace horo::ops::reference {
namespace {

Values softmax(const Values& logits, std::size_t classes) {
  Values result(logits.size());
  for (std::size_t row = 0; row < logits.size(); row += classes) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[row + c]);
    for (std::size_t c = 0; c < classes; ++c) result[row + c] = std::exp(logits[row + c]) / sum;
  }
  return result;
}

}  // namespace

double cross_entropy(const Values& logits, const std::vector<std::int32_t>& labels,
                     std::size_t classes, double normaliser) {
  const Values probabilities = softmax(logits, classes);
  double loss = 0;
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    const auto label = static_cast<std::size_t>(labels[sample]);
    loss -= std::log(probabilities[sample * classes + label]);
  }
  return loss / normaliser;
}

Values cross_entropy_gradient(const Values& logits, const std::vector<std::int32_t>& labels,
                              std::size_t classes, double normaliser) {
  Values gradient = softmax(logits, classes);
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    gradient[sample * classes + static_cast<std::size_t>(labels[sample])] -= 1.0;
  }
  for (double& value : gradient) value /= normaliser;
  return gradient;
}

}  // namespace horo::ops::reference

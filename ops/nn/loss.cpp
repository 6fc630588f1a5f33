#include "ops/nn/loss.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"

namespace horo::ops {

// The gradient overwrites the output if nothing else uses it, so no second array of that size is
// allocated.
Tensor Loss::backward(Backend& backend, Tensor output, const Tensor& targets, double samples,
                      BatchScore* score, float* loss, const float* loss_scale) const {
  // The comparison also rejects NaN.
  HORO_CHECK(samples > 0, fmt::format("loss: normaliser is {}; must be above 0", samples));
  const auto per_sample = static_cast<double>(check(output, targets));
  Tensor gradient =
      output.is_unique() ? output.shared() : backend.allocate(output.shape(), output.type());
  compare(backend, output, targets, {samples * per_sample, &gradient, score, loss, loss_scale});
  return gradient;
}

void Loss::score(Backend& backend, const Tensor& output, const Tensor& targets,
                 BatchScore* score) const {
  check(output, targets);
  compare(backend, output, targets, {.normaliser = 1, .score = score});
}

CrossEntropy::CrossEntropy(const CrossEntropyOptions& options) : options_(options) {
  HORO_CHECK(options.label_smoothing >= 0 && options.label_smoothing < 1,
             fmt::format("cross-entropy: label_smoothing is {}; must be in [0, 1)",
                         options.label_smoothing));
}

std::string CrossEntropy::describe() const {
  return fmt::format(
      "CrossEntropy with label_smoothing {} and {}", options_.label_smoothing,
      options_.ignored ? fmt::format("ignored class {}", *options_.ignored) : "no ignored class");
}

std::size_t CrossEntropy::check(const Tensor& output, const Tensor& targets) const {
  const Shape& shape = output.shape();
  HORO_CHECK(
      targets.count() > 0 && shape.rank() > 1 && shape.count() > 0 &&
          shape[0] == targets.shape()[0] && shape.count() % targets.count() == 0,
      fmt::format("cross-entropy: logits have shape {}; expected [{}, classes] for {} labels",
                  shape.to_string(), targets.count(), targets.count()));
  return targets.count() / targets.shape()[0];
}

void CrossEntropy::compare(Backend& backend, const Tensor& output, const Tensor& targets,
                           const LossArguments& to) const {
  backend.cross_entropy(output, targets, options_, to);
}

std::size_t MeanSquaredError::check(const Tensor& output, const Tensor& targets) const {
  HORO_CHECK(output.count() > 0 && output.count() == targets.count() &&
                 output.shape()[0] == targets.shape()[0],
             fmt::format("mean squared error: the output has shape {}, the targets {}; expected as "
                         "many values",
                         output.shape().to_string(), targets.shape().to_string()));
  return targets.count() / targets.shape()[0];
}

void MeanSquaredError::compare(Backend& backend, const Tensor& output, const Tensor& targets,
                               const LossArguments& to) const {
  backend.squared_error(output, targets, to);
}

}  // namespace horo::ops

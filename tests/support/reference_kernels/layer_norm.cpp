#include "tests/support/reference_kernels/layer_norm.h"

#include <cmath>

namespace horo::ops::reference {
namespace {

struct Row {
  Values normalised;
  double deviation;
};

Row normalise(const Values& x, std::size_t begin, std::size_t columns, double epsilon) {
  double mean = 0, variance = 0;
  for (std::size_t c = 0; c < columns; ++c) mean += x[begin + c] / static_cast<double>(columns);
  for (std::size_t c = 0; c < columns; ++c)
    variance += (x[begin + c] - mean) * (x[begin + c] - mean) / static_cast<double>(columns);
  Row row{Values(columns), std::sqrt(variance + epsilon)};
  for (std::size_t c = 0; c < columns; ++c)
    row.normalised[c] = (x[begin + c] - mean) / row.deviation;
  return row;
}

}  // namespace

Values layer_norm(const Values& x, const Values& gamma, const Values& beta, double epsilon) {
  const std::size_t columns = gamma.size();
  Values result(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += columns) {
    const Row row = normalise(x, begin, columns, epsilon);
    for (std::size_t c = 0; c < columns; ++c)
      result[begin + c] = row.normalised[c] * gamma[c] + beta[c];
  }
  return result;
}

LayerNormGradients layer_norm_gradients(const Values& x, const Values& gamma,
                                        const Values& output_gradient, double epsilon) {
  const std::size_t columns = gamma.size();
  LayerNormGradients result{Values(x.size()), Values(columns), Values(columns)};
  for (std::size_t begin = 0; begin < x.size(); begin += columns) {
    const Row row = normalise(x, begin, columns, epsilon);
    double mean = 0, mean_with = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const double dy = output_gradient[begin + c];
      result.gamma[c] += dy * row.normalised[c];
      result.beta[c] += dy;
      mean += dy * gamma[c] / static_cast<double>(columns);
      mean_with += dy * gamma[c] * row.normalised[c] / static_cast<double>(columns);
    }
    for (std::size_t c = 0; c < columns; ++c)
      result.x[begin + c] =
          (output_gradient[begin + c] * gamma[c] - mean - row.normalised[c] * mean_with) /
          row.deviation;
  }
  return result;
}

}  // namespace horo::ops::reference

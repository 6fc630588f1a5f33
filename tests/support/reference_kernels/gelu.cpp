#include "tests/support/reference_kernels/gelu.h"

#include <cmath>
#include <cstddef>
#include <numbers>

namespace horo::ops::reference {
namespace {

const double kFactor = std::sqrt(2 / std::numbers::pi);

double tanh_of(double x) { return std::tanh(kFactor * (x + 0.044715 * x * x * x)); }

}  // namespace

Values gelu(const Values& x) {
  Values result;
  for (const double value : x) result.push_back(value / 2 * (1 + tanh_of(value)));
  return result;
}

Values gelu_gradient(const Values& x, const Values& output_gradient) {
  Values result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double tanh = tanh_of(x[i]);
    const double inner = kFactor * (1 + 3 * 0.044715 * x[i] * x[i]);
    result.push_back(output_gradient[i] * ((1 + tanh) / 2 + x[i] / 2 * (1 - tanh * tanh) * inner));
  }
  return result;
}

}  // namespace horo::ops::reference

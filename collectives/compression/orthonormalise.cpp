#include "collectives/compression/orthonormalise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "collectives/compression/lane_sum.h"

namespace horo::collectives {
namespace {

// Of a vector, after what depends on others has been taken from it: below this it is rounding.
constexpr double kDependent = 1e-10;

double dot(const double* a, const double* b, std::size_t length) {
  return sum_in_lanes<double>(length, [&](std::size_t i) { return a[i] * b[i]; });
}

void subtract_projections(double* vector, const double* before, std::size_t count,
                          std::size_t length) {
  for (std::size_t k = 0; k < count; ++k) {
    const double* other = before + k * length;
    const double share = dot(vector, other, length);
    for (std::size_t i = 0; i < length; ++i) vector[i] -= share * other[i];
  }
}

}  // namespace

bool orthonormalise(float* vectors, std::size_t count, std::size_t length) {
  std::vector<double> exact(vectors, vectors + count * length);
  if (!std::ranges::all_of(exact, [](double x) { return std::isfinite(x); })) return false;
  for (std::size_t k = 0; k < count; ++k) {
    double* vector = exact.data() + k * length;
    const double norm_before = std::sqrt(dot(vector, vector, length));
    for (int pass = 0; pass < 2; ++pass) subtract_projections(vector, exact.data(), k, length);
    const double norm = std::sqrt(dot(vector, vector, length));
    const double scale = norm > kDependent * norm_before ? 1 / norm : 0;
    for (std::size_t i = 0; i < length; ++i) vector[i] *= scale;
  }
  std::ranges::transform(exact, vectors, [](double x) { return static_cast<float>(x); });
  return true;
}

}  // namespace horo::collectives
